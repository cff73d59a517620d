//! The life of a sandbox: how it is made, paused, forked and ended, and one command in a sandbox of its own.

mod forget;
pub(crate) mod fork;
pub(crate) mod one_command;
mod pause;
mod provision;
pub(crate) mod sessions;
pub(crate) mod spares;
pub(crate) mod teardown;
mod work_branch;

use std::sync::Arc;

use coracle_core::backend::EndsWith;
use coracle_core::repo::RepoPolicy;

use self::spares::Spares;
use crate::access::Access;
use crate::egress::Egress;
use crate::entry::Entry;
use crate::exec::Execs;
use crate::headroom::Headroom;
use crate::holdings::Holdings;
use crate::inline::Inline;
use crate::placement::Placement;
use crate::records::Records;
use crate::repositories::Repositories;

/// Makes and ends sandboxes. Clones share the spare pool, and differ at most in what the sandboxes they make end with and
/// in how much output answers carry.
#[derive(Debug, Clone)]
pub struct Lifecycle {
    records: Arc<Records>,
    placement: Arc<Placement>,
    headroom: Arc<Headroom>,
    holdings: Arc<Holdings>,
    access: Arc<Access>,
    egress: Arc<Egress>,
    entry: Arc<Entry>,
    execs: Execs,
    spares: Arc<Spares>,
    repositories: Arc<Repositories>,
    repos: Arc<RepoPolicy>,
    ends_with: EndsWith,
}

/// What sandboxes are made with.
pub(crate) struct LifecycleParts {
    pub records: Arc<Records>,
    pub placement: Arc<Placement>,
    pub headroom: Arc<Headroom>,
    pub holdings: Arc<Holdings>,
    pub access: Arc<Access>,
    pub egress: Arc<Egress>,
    pub entry: Arc<Entry>,
    pub execs: Execs,
    pub repositories: Arc<Repositories>,
    pub repos: Arc<RepoPolicy>,
}

impl Lifecycle {
    pub(crate) fn new(parts: LifecycleParts) -> Self {
        let LifecycleParts {
            records,
            placement,
            headroom,
            holdings,
            access,
            egress,
            entry,
            execs,
            repositories,
            repos,
        } = parts;
        Self {
            records,
            placement,
            headroom,
            holdings,
            access,
            egress,
            entry,
            execs,
            spares: Arc::default(),
            repositories,
            repos,
            ends_with: EndsWith::Nothing,
        }
    }

    /// Returns the same, with answers that carry this much output.
    pub(crate) fn answering(&self, inline: Inline) -> Self {
        Self { execs: self.execs.answering(inline), ..self.clone() }
    }

    /// Returns the same, whose sandboxes end with this process, however that dies.
    fn tied_to_this_process(&self) -> Self {
        Self { ends_with: EndsWith::Maker, ..self.clone() }
    }
}
