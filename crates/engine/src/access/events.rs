//! Which events a caller reads.

use coracle_core::event::Filter;

use super::Access;
use crate::Caller;
use crate::records::watch::Watch;

impl Access {
    /// Starts reading events behind the number `since` that a filter admits. A tenant reads its own, whatever the filter
    /// says.
    pub fn watch(&self, caller: &Caller, since: u64, filter: Filter) -> Watch {
        let filter = match &caller.tenant {
            Some(tenant) => Filter { tenant: Some(tenant.clone()), ..filter },
            None => filter,
        };
        self.records.watch(since, filter)
    }
}
