//! Describes a tool of the catalogue in the terms of MCP.

use std::sync::Arc;

use coracle_engine::catalogue::tools::Tool;
use coracle_engine::catalogue::{Effect, Facts, Reach, Repeat};
use rmcp::model::{self, ToolAnnotations};

/// Returns a tool as clients see it.
pub fn described(tool: &Tool) -> model::Tool {
    let Tool { facts, input, output } = tool.clone();
    let mut described = model::Tool::new(facts.name, facts.about, Arc::new(input));
    described.output_schema = Some(Arc::new(output));
    described.title = Some(facts.title.to_owned());
    described.annotations = Some(hints(facts));
    described
}

/// Returns the hints for clients that ask their user before some calls. They allow and refuse nothing: that is the
/// engine's ownership gate.
fn hints(facts: &Facts) -> ToolAnnotations {
    ToolAnnotations::with_title(facts.title)
        .read_only(facts.effect == Effect::Reads)
        .destructive(facts.effect == Effect::Destroys)
        // A hint cannot depend on the input, so it must be true for every input.
        .idempotent(matches!(facts.repeat, Repeat::Always))
        .open_world(facts.reach == Reach::World)
}

#[cfg(test)]
mod tests {
    use coracle_engine::Catalogue;

    use super::*;

    fn hints_of(name: &str) -> ToolAnnotations {
        hints(Catalogue::own().find(name).expect("it is an operation").facts)
    }

    #[test]
    fn what_may_make_another_with_every_call_says_so() {
        for name in ["sandbox_open", "sandbox_run", "sandbox_fork", "sandbox_snapshot", "sandbox_exec"] {
            assert_eq!(hints_of(name).idempotent_hint, Some(false), "{name}");
        }
    }

    #[test]
    fn what_takes_a_sandbox_away_says_so() {
        for name in ["sandbox_close", "sandbox_transfer", "sandbox_release", "sandbox_fs_delete"] {
            assert_eq!(hints_of(name).destructive_hint, Some(true), "{name}");
            assert_eq!(hints_of(name).read_only_hint, Some(false), "{name}");
        }
    }
}
