//! Who asks: the run it acts for, the tenant it belongs to, and the most it may have.

use std::sync::Arc;

use coracle_core::{Ceiling, Claim, Epoch, Record, Result, RunId, TenantId};
use coracle_egress::weak::{self, Wall};

/// Who asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    pub claim: Claim,
    /// Whose sandboxes it sees; the home's own people have none, and see all.
    pub tenant: Option<TenantId>,
    /// The most it may have, where a person has said so; a person has none.
    pub ceiling: Option<Arc<Ceiling>>,
}

impl Caller {
    /// Returns one of the home's own people, who acts under the run's current lease.
    pub fn acting_as(run: RunId) -> Self {
        Self { claim: Claim { run, epoch: None }, tenant: None, ceiling: None }
    }

    /// Returns the same caller, insisting on an epoch or on none.
    pub fn under(&self, epoch: Option<Epoch>) -> Self {
        Self { claim: Claim { epoch, ..self.claim.clone() }, ..self.clone() }
    }

    /// Returns the caller as the owner of a sandbox it has just made: whatever it believes of others' epochs, and
    /// whatever it may enter by a name, this one is its own.
    pub fn of_its_own(&self) -> Self {
        Self { ceiling: None, ..self.under(None) }
    }

    /// Returns the same caller below a ceiling.
    pub fn below(self, ceiling: Ceiling) -> Self {
        let ceiling = (!weak::off(Wall::Ceiling)).then(|| Arc::new(ceiling));
        Self { ceiling, ..self }
    }

    /// Tells whether it may know that this sandbox exists. The home's own people see those of every tenant; a model at a
    /// door they started does not.
    pub fn sees(&self, record: &Record) -> bool {
        (self.tenant.is_none() && self.ceiling.is_none()) || self.tenant == record.tenant
    }

    /// Refuses a sandbox that has more than the caller may have.
    pub(crate) fn check_reach(&self, record: &Record) -> Result<()> {
        self.ceiling.as_ref().map_or(Ok(()), |ceiling| ceiling.check_record(record))
    }
}
