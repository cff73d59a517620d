//! Installing what a repository depends on: which package manager, what it needs, what is run, and where packages are
//! kept between sandboxes. Pure: names and bytes in, decisions out.

pub mod cache;
mod cargo;
pub mod ecosystem;
mod go;
mod javascript;
pub mod manifests;
pub mod plan;
mod python;

use std::collections::BTreeMap;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use self::cache::{Claim, Draft, Key, PackageCache, Project, Sealed};
pub use self::ecosystem::Ecosystem;
pub use self::manifests::Manifests;
pub use self::plan::Plan;
use crate::ids::ExecId;
use crate::network::Network;

/// The id of the exec that installs.
pub const EXEC: &str = "install";

/// Whether dependencies are installed when a sandbox is opened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// They are, where there is a lockfile; a failure is reported and fails nothing.
    #[default]
    Auto,
    Off,
    /// A failure fails the open.
    Required,
}

/// How it went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    Done,
    /// There was nothing to install, or nothing to install it with.
    Skipped,
    Failed,
}

/// What became of installing dependencies.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Report {
    pub status: Status,
    /// The package manager, if a lockfile was found.
    pub ecosystem: Option<Ecosystem>,
    /// The SHA-256 of the lockfile, if one was read.
    pub lockfile_sha256: Option<String>,
    /// The exec that installed, if it was started; its output can be read by this id.
    pub exec_id: Option<ExecId>,
    /// Why nothing was installed, or what else there is to know.
    pub reason: Option<String>,
    /// What can be done about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

impl Report {
    /// Reports that nothing was installed and nothing failed.
    pub fn skipped(reason: impl Into<String>) -> Self {
        Self::because(Status::Skipped, reason)
    }

    pub fn failed(reason: impl Into<String>) -> Self {
        Self::because(Status::Failed, reason)
    }

    fn because(status: Status, reason: impl Into<String>) -> Self {
        let reason = Some(reason.into());
        Self { status, ecosystem: None, lockfile_sha256: None, exec_id: None, reason, hint: None }
    }

    /// Tells whether it fails an open that requires its dependencies. A repository without a lockfile has none.
    pub fn fails(&self) -> bool {
        match self.status {
            Status::Done => false,
            Status::Skipped => self.ecosystem.is_some(),
            Status::Failed => true,
        }
    }
}

/// The operator's rules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rules {
    /// The network of fillers for each ecosystem; without an entry a filler reaches nothing.
    pub networks: BTreeMap<Ecosystem, Network>,
    /// The registry that fillers ask instead of the package manager's own.
    pub registries: BTreeMap<Ecosystem, String>,
    /// The wall time of a filler, and of the exec that installs.
    pub timeout: Duration,
    /// The most bytes that are kept of one lockfile.
    pub entry_max: u64,
    /// The most bytes that are kept of one tenant's.
    pub total: u64,
    /// How long packages are kept after their last use, in observed time.
    pub keep: Duration,
}

impl Rules {
    /// Returns what a filler may reach.
    pub fn network(&self, ecosystem: Ecosystem) -> &Network {
        self.networks.get(&ecosystem).unwrap_or(&Network::None)
    }
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            networks: BTreeMap::new(),
            registries: BTreeMap::new(),
            timeout: Duration::from_secs(10 * 60),
            entry_max: 2 << 30,
            total: 10 << 30,
            keep: Duration::from_secs(30 * 24 * 3600),
        }
    }
}
