//! Which operations are tools: those the mode calls for, and the sets that were asked for beyond it, below the ceiling of
//! the door.

use std::collections::BTreeSet;
use std::str::FromStr;

use coracle_core::{Ceiling, Error, Kind, Result};
use coracle_engine::ops;
use rmcp::model::Tool;
use serde_json::Value;

use super::{fields, tool};

/// What a client gets without asking for more.
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

/// The tools of `code`.
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

/// Operations a mode does not bring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Set {
    Run,
    Snapshots,
    Ownership,
    Processes,
    Files,
    Network,
    Inventory,
    Images,
    Volumes,
    /// Every operation there is for a model.
    All,
}

const SETS: [(&str, Set); 10] = [
    ("run", Set::Run),
    ("snapshots", Set::Snapshots),
    ("ownership", Set::Ownership),
    ("processes", Set::Processes),
    ("files", Set::Files),
    ("network", Set::Network),
    ("inventory", Set::Inventory),
    ("images", Set::Images),
    ("volumes", Set::Volumes),
    ("all", Set::All),
];

/// Sets that people may have read of and that have no operations yet.
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
            true => Error::new(Kind::Unsupported, format!("the tools of `{shown}` are not there yet")),
            false => Error::new(Kind::Invalid, format!("there is no set of tools `{shown}`")),
        };
        Err(error.hint(format!("use some of: {names}")).detail("field", "with"))
    }
}

impl Mode {
    fn operations(self) -> &'static [&'static str] {
        match self {
            Self::None => &[],
            Self::Compute => &["sandbox_run"],
            Self::Code => &CODE,
        }
    }
}

impl Set {
    fn operations(self) -> &'static [&'static str] {
        match self {
            Self::Run => &["sandbox_run"],
            Self::Snapshots => &["sandbox_fork", "sandbox_snapshot"],
            Self::Ownership => &["sandbox_claim", "sandbox_transfer", "sandbox_release"],
            Self::Processes => {
                &["sandbox_exec_stop", "sandbox_exec_write", "sandbox_pause", "sandbox_resume"]
            }
            Self::Files => &["sandbox_fs_stat", "sandbox_fs_move"],
            Self::Network => &["sandbox_network"],
            Self::Inventory => &["sandbox_list", "sandbox_get", "sandbox_stats", "event_list"],
            Self::Images => {
                &["image_pull", "image_prepull", "image_build", "image_load", "image_list", "image_remove"]
            }
            Self::Volumes => &["volume_list", "volume_remove"],
            Self::All => ops::names(),
        }
    }
}

/// The tools a client sees, in the order of the operations: lists that do not change can be kept by who reads them.
#[derive(Debug, Clone)]
pub struct Toolbox {
    tools: Vec<Tool>,
}

impl Toolbox {
    pub fn of(mode: Mode, sets: &[Set], ceiling: Option<&Ceiling>) -> Self {
        let mut wanted: BTreeSet<&str> = mode.operations().iter().copied().collect();
        wanted.extend(sets.iter().flat_map(|set| set.operations()));
        let tools = ops::names().iter().filter(|name| wanted.contains(*name));
        let mut tools: Vec<Tool> = tools.filter_map(|name| tool::of(name)).collect();
        if let Some(ceiling) = ceiling {
            fields::narrow(&mut tools, ceiling);
        }
        Self { tools }
    }

    /// Refuses an input with fields the tool does not list.
    pub fn check(&self, name: &str, input: &Value) -> Result<()> {
        self.find(name).map_or(Ok(()), |tool| fields::check(tool, input))
    }

    pub fn all(&self) -> &[Tool] {
        &self.tools
    }

    pub fn find(&self, name: &str) -> Option<&Tool> {
        self.tools.iter().find(|tool| tool.name == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(toolbox: &Toolbox) -> Vec<&str> {
        toolbox.all().iter().map(|tool| tool.name.as_ref()).collect()
    }

    #[test]
    fn a_mode_brings_exactly_its_tools() {
        assert!(names(&Toolbox::of(Mode::None, &[], None)).is_empty());
        assert_eq!(names(&Toolbox::of(Mode::Compute, &[], None)), ["sandbox_run"]);
        assert_eq!(names(&Toolbox::of(Mode::Code, &[], None)), CODE);
    }

    #[test]
    fn every_operation_can_be_had() {
        assert_eq!(names(&Toolbox::of(Mode::None, &[Set::All], None)), ops::names());
    }

    #[test]
    fn sets_add_to_the_mode_whatever_their_order() {
        let one = Toolbox::of(Mode::Code, &[Set::Ownership, Set::Snapshots], None);
        let other = Toolbox::of(Mode::Code, &[Set::Snapshots, Set::Ownership, Set::Ownership], None);

        assert_eq!(names(&one), names(&other));
        assert_eq!(names(&one).len(), CODE.len() + 5);
    }

    #[test]
    fn a_set_that_is_to_come_is_told_from_one_that_is_not() {
        assert_eq!("git".parse::<Set>().expect_err("not there").kind, Kind::Unsupported);
        assert_eq!("gti".parse::<Set>().expect_err("not there").kind, Kind::Invalid);
    }
}
