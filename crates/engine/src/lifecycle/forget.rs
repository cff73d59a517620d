//! Giving up on a sandbox whose engine does not answer any more. The record says what is left behind, and where.
//!
//! If the engine comes back while the home is still there, a sweep finds what was left behind and removes it.

use coracle_core::store::Durability;
use coracle_core::{Cancel, Error, Kind, Record, Result, SandboxId, State, lifecycle, redact};

use super::Lifecycle;
use crate::Call;
use crate::lifecycle::teardown::may_close;

impl Lifecycle {
    /// Destroys a sandbox; where its engine cannot be asked, ends its record all the same. Returns what is left behind.
    pub(crate) fn close_or_forget(&self, call: &Call, id: &SandboxId) -> Result<Vec<String>> {
        let caller = &call.caller;
        self.access.check_own(caller, "giving up on a sandbox").map_err(|error| {
            error
                .hint("close it without `forget`; if that fails, the operator can give it up with `coracle close --forget`")
                .detail("sandbox_id", id.as_str())
        })?;
        let Err(error) = self.close(call, id) else { return Ok(Vec::new()) };
        match self.records.find(id)?.state {
            // An engine that answers, and refuses, is not gone.
            State::DestroyFailed if error.kind == Kind::NotAvailable => {
                self.forget(id, &|record| may_close(caller, record), &error)
            }
            _ => Err(error),
        }
    }

    /// Ends the record of a sandbox that could not be destroyed. Returns what is left behind.
    pub(crate) fn forget(
        &self,
        id: &SandboxId,
        allow: &dyn Fn(&Record) -> Result<()>,
        why: &Error,
    ) -> Result<Vec<String>> {
        let _work = self.headroom.freeing(|| self.records.store().work_on(id, &Cancel::default()))?;
        let record = self.records.entomb(id, allow)?;
        if record.state.is_ended() {
            return Ok(Vec::new());
        }
        let left = match self.placement.backend_of(&record) {
            Ok(backend) => backend.forget(id)?,
            // No backend of this name exists any more, so what is left cannot be listed.
            Err(_) => vec![format!("whatever `{}` has of sandbox `{id}`", record.backend)],
        };
        self.headroom.freeing(|| self.egress.unkeep(id))?;
        let told = match record.tenant {
            None => format!("given up; left behind: {}; {}", left.join(", "), why.chain()),
            // Where things are on the machine is not a tenant's to know.
            Some(_) => format!("given up: {}", redact::reason(&record, why)),
        };
        self.headroom.freeing(|| {
            self.records.change(id, Durability::Process, &mut |mut row| {
                row.state = row
                    .state
                    .step(lifecycle::Event::Removed)
                    .map_err(|refused| refused.into_error(&row.id))?;
                row.reason = Some(told.clone());
                Ok(row)
            })
        })?;
        Ok(left)
    }
}
