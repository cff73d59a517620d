//! Who may do what: the way to a guest, changes of owner, tenants, and what callers can name.

mod backends;
mod events;
pub(crate) mod expiry;
pub(crate) mod gate;
pub(crate) mod handover;
pub(crate) mod naming;
mod operation;
pub(crate) mod rejoin;
pub(crate) mod tenancy;
pub(crate) mod tie;
pub(crate) mod volumes;

use std::sync::Arc;

use coracle_core::{Policy, Record, Result, SandboxId};

use self::tenancy::Tenancy;
use crate::caller::Caller;
use crate::headroom::Headroom;
use crate::placement::Placement;
use crate::records::{Records, unknown};
use crate::spans;

/// Decides who gets at which sandbox, and connects those that may to its guest.
#[derive(Debug)]
pub struct Access {
    records: Arc<Records>,
    placement: Arc<Placement>,
    headroom: Arc<Headroom>,
    policy: Arc<Policy>,
    tenancy: Tenancy,
}

impl Access {
    pub(crate) fn new(
        records: Arc<Records>,
        placement: Arc<Placement>,
        headroom: Arc<Headroom>,
        policy: Arc<Policy>,
    ) -> Self {
        let tenancy = Tenancy::of(&policy);
        Self { records, placement, headroom, policy, tenancy }
    }

    /// Returns a record the caller may know of; of others it is told what it is told of ids that never were.
    pub(crate) fn find_for(&self, caller: &Caller, id: &SandboxId) -> Result<Record> {
        let record = self.records.find(id)?;
        if !caller.sees(&record) {
            return Err(unknown(id));
        }
        caller.check_reach(&record)?;
        spans::name(&record);
        Ok(record)
    }

    /// Tells whether a list shows a sandbox to a caller. Records of a list have no variables, and ceilings look at those.
    pub(crate) fn shows(&self, caller: &Caller, listed: &Record) -> bool {
        match &caller.ceiling {
            None => caller.sees(listed),
            Some(_) => self.find_for(caller, &listed.id).is_ok(),
        }
    }
}
