//! What keeps a home in order: sweeps, purges, and what is counted for those who watch it.

pub mod glance;
pub mod inventory;
pub mod janitor;
pub mod purge;

use std::sync::Arc;

use crate::egress::Egress;
use crate::exec::Execs;
use crate::headroom::Headroom;
use crate::lifecycle::Lifecycle;
use crate::placement::Placement;
use crate::records::Records;

/// Keeps a home in order. It acts for no caller.
#[derive(Debug, Clone)]
pub struct Upkeep {
    records: Arc<Records>,
    placement: Arc<Placement>,
    headroom: Arc<Headroom>,
    egress: Arc<Egress>,
    execs: Execs,
    lifecycle: Lifecycle,
}

/// What a home is kept in order with.
pub(crate) struct UpkeepParts {
    pub records: Arc<Records>,
    pub placement: Arc<Placement>,
    pub headroom: Arc<Headroom>,
    pub egress: Arc<Egress>,
    pub execs: Execs,
    pub lifecycle: Lifecycle,
}

impl Upkeep {
    pub(crate) fn new(parts: UpkeepParts) -> Self {
        let UpkeepParts { records, placement, headroom, egress, execs, lifecycle } = parts;
        Self { records, placement, headroom, egress, execs, lifecycle }
    }
}
