//! What the operator allows, and the defaults where a caller says nothing. Comes from configuration, never from a
//! caller.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::headroom::Reserve;
use crate::image::{Allowed, HOST};
use crate::install;
use crate::limits::Ranges;
use crate::mount::MountPolicy;
use crate::network::NetworkPolicy;
use crate::repo::RepoPolicy;
use crate::selection::Preference;
use crate::spec::Runtime;
use crate::tenant::Tenants;

/// The operator's rules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    pub limits: Ranges,
    /// Wall time of an exec that names none.
    pub exec_timeout: Duration,
    /// The most wall time an exec may have; unlimited if absent.
    pub exec_timeout_max: Option<Duration>,
    /// Time between TERM and KILL at a deadline.
    pub grace: Duration,
    /// How many bytes of output an HTTP or MCP answer carries; of longer output, the beginning and the end.
    pub inline_output: u64,
    /// The image of a sandbox that names none.
    pub image: String,
    /// The images of languages that do not use the default image.
    pub runtimes: BTreeMap<Runtime, String>,
    /// Images to pull in advance.
    pub prepull: Vec<String>,
    pub images: Allowed,
    pub mounts: MountPolicy,
    pub network: NetworkPolicy,
    pub backends: Preference,
    pub tenants: Tenants,
    /// How much of the home's disk must stay free.
    pub reserve: Reserve,
    /// How long a hibernated sandbox is kept; for ever if absent.
    pub hibernate_keep: Option<Duration>,
    /// How dependencies of repositories are installed.
    pub install: install::Rules,
    pub repos: RepoPolicy,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            limits: Ranges::default(),
            exec_timeout: Duration::from_secs(5 * 60),
            exec_timeout_max: None,
            grace: Duration::from_secs(2),
            // More than a model or a log page reads, and little compared with a daemon's memory.
            inline_output: 1 << 20,
            image: HOST.to_owned(),
            runtimes: BTreeMap::new(),
            prepull: Vec::new(),
            images: Allowed::default(),
            mounts: MountPolicy::default(),
            network: NetworkPolicy::default(),
            backends: Preference::default(),
            tenants: Tenants::default(),
            reserve: Reserve::default(),
            hibernate_keep: Some(Duration::from_secs(30 * 24 * 3600)),
            install: install::Rules::default(),
            repos: RepoPolicy::default(),
        }
    }
}
