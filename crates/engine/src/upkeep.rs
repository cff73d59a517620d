//! What keeps a home in order: sweeps, purges, and what is counted for those who watch it.

pub mod glance;
pub mod inventory;
pub mod janitor;
pub mod purge;

use std::sync::Arc;
use std::time::Duration;

use crate::egress::Egress;
use crate::entry::Entry;
use crate::exec::Execs;
use crate::headroom::Headroom;
use crate::lifecycle::Lifecycle;
use crate::packages::Packages;
use crate::placement::Placement;
use crate::records::Records;
use crate::repositories::Repositories;

/// Keeps a home in order. It acts for no caller.
#[derive(Debug, Clone)]
pub struct Upkeep {
    records: Arc<Records>,
    placement: Arc<Placement>,
    repositories: Arc<Repositories>,
    headroom: Arc<Headroom>,
    egress: Arc<Egress>,
    entry: Arc<Entry>,
    execs: Execs,
    lifecycle: Lifecycle,
    packages: Packages,
    /// How long hibernated sandboxes are kept; for ever if absent.
    keep: Option<Duration>,
}

/// What a home is kept in order with.
pub(crate) struct UpkeepParts {
    pub records: Arc<Records>,
    pub placement: Arc<Placement>,
    pub repositories: Arc<Repositories>,
    pub headroom: Arc<Headroom>,
    pub egress: Arc<Egress>,
    pub entry: Arc<Entry>,
    pub execs: Execs,
    pub lifecycle: Lifecycle,
    pub packages: Packages,
    pub keep: Option<Duration>,
}

impl Upkeep {
    pub(crate) fn new(parts: UpkeepParts) -> Self {
        let UpkeepParts {
            records,
            placement,
            repositories,
            headroom,
            egress,
            entry,
            execs,
            lifecycle,
            packages,
            keep,
        } = parts;
        Self { records, placement, repositories, headroom, egress, entry, execs, lifecycle, packages, keep }
    }
}
