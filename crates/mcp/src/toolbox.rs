//! Which operations are tools: those of the mode, and the sets asked for besides it, within the ceiling of the door.

use std::str::FromStr;

use coracle_core::{Ceiling, Error, Kind, Result};
use coracle_engine::catalogue::{self, Catalogue, Facts, tools};
use rmcp::model::Tool;
use serde_json::Value;

use super::tool;

/// The tools a client gets by default.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum Mode {
    /// No tools
    None,
    /// `sandbox_run` alone: one program, one sandbox, gone afterwards
    Compute,
    /// Open a sandbox, run commands and work on files in it
    #[default]
    Code,
}

/// Sets of tools besides the mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Set {
    Of(catalogue::Set),
    /// Every operation for models.
    All,
}

const SETS: [(&str, Set); 11] = [
    ("run", Set::Of(catalogue::Set::Run)),
    ("snapshots", Set::Of(catalogue::Set::Snapshots)),
    ("ownership", Set::Of(catalogue::Set::Ownership)),
    ("processes", Set::Of(catalogue::Set::Processes)),
    ("files", Set::Of(catalogue::Set::Files)),
    ("network", Set::Of(catalogue::Set::Network)),
    ("inventory", Set::Of(catalogue::Set::Inventory)),
    ("images", Set::Of(catalogue::Set::Images)),
    ("volumes", Set::Of(catalogue::Set::Volumes)),
    ("repos", Set::Of(catalogue::Set::Repos)),
    ("all", Set::All),
];

/// Announced sets that have no operations yet.
const TO_COME: [&str; 2] = ["git", "workflows"];

impl FromStr for Set {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        if let Some((_, set)) = SETS.iter().find(|(name, _)| *name == text) {
            return Ok(*set);
        }
        let names = SETS.map(|(name, _)| name).join(", ");
        let shown = text.escape_debug();
        let error = match TO_COME.contains(&text) {
            true => Error::new(Kind::Unsupported, format!("the tools of `{shown}` are not available yet")),
            false => Error::new(Kind::Invalid, format!("there is no set of tools `{shown}`")),
        };
        Err(error.hint(format!("use some of: {names}")).detail("field", "with"))
    }
}

impl Mode {
    fn set(self) -> Option<catalogue::Set> {
        match self {
            Self::None => None,
            Self::Compute => Some(catalogue::Set::Run),
            Self::Code => Some(catalogue::Set::Code),
        }
    }
}

/// The tools a client sees, in the order of the operations: clients can cache a list that does not change.
#[derive(Debug, Clone)]
pub struct Toolbox {
    tools: Vec<tools::Tool>,
    /// The same, as clients see them.
    described: Vec<Tool>,
}

impl Toolbox {
    pub fn of(catalogue: &Catalogue, mode: Mode, sets: &[Set], ceiling: Option<&Ceiling>) -> Self {
        let wanted = |facts: &Facts| {
            mode.set() == Some(facts.set) || sets.contains(&Set::All) || sets.contains(&Set::Of(facts.set))
        };
        let tools = tools::offer(catalogue, wanted, ceiling);
        Self { described: tools.iter().map(tool::described).collect(), tools }
    }

    /// Refuses an input with fields the tool does not list.
    pub fn check(&self, name: &str, input: &Value) -> Result<()> {
        self.tool(name).map_or(Ok(()), |tool| tool.check(input))
    }

    pub fn all(&self) -> &[Tool] {
        &self.described
    }

    pub fn find(&self, name: &str) -> Option<&Tool> {
        self.described.iter().find(|tool| tool.name == name)
    }

    /// Returns the facts of a tool's operation.
    pub fn facts(&self, name: &str) -> Option<&'static Facts> {
        self.tool(name).map(|tool| tool.facts)
    }

    fn tool(&self, name: &str) -> Option<&tools::Tool> {
        self.tools.iter().find(|tool| tool.facts.name == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The default tools of a coding agent; clients rely on these.
    const CODE: [&str; 9] = [
        "sandbox_open",
        "sandbox_exec",
        "sandbox_exec_read",
        "sandbox_exec_wait",
        "sandbox_fs_write",
        "sandbox_fs_read",
        "sandbox_fs_list",
        "sandbox_fs_delete",
        "sandbox_close",
    ];

    fn names(mode: Mode, sets: &[Set]) -> Vec<String> {
        let toolbox = Toolbox::of(Catalogue::own(), mode, sets, None);
        toolbox.all().iter().map(|tool| tool.name.to_string()).collect()
    }

    fn set(name: &str) -> Set {
        name.parse().expect("there is such a set")
    }

    #[test]
    fn a_mode_brings_exactly_its_tools() {
        assert!(names(Mode::None, &[]).is_empty());
        assert_eq!(names(Mode::Compute, &[]), ["sandbox_run"]);
        assert_eq!(names(Mode::Code, &[]), CODE);
    }

    #[test]
    fn every_operation_can_be_had() {
        assert_eq!(names(Mode::None, &[Set::All]), Catalogue::own().names());
    }

    #[test]
    fn sets_add_to_the_mode_whatever_their_order() {
        let one = names(Mode::Code, &[set("ownership"), set("snapshots")]);
        let other = names(Mode::Code, &[set("snapshots"), set("ownership"), set("ownership")]);

        assert_eq!(one, other);
        assert_eq!(one.len(), CODE.len() + 5);
    }

    #[test]
    fn an_announced_set_and_an_unknown_one_differ() {
        assert_eq!("git".parse::<Set>().expect_err("not there").kind, Kind::Unsupported);
        assert_eq!("gti".parse::<Set>().expect_err("not there").kind, Kind::Invalid);
    }
}
