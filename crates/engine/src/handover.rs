//! Changes of owner: the row first, then the fence in the guest.
//!
//! From the row on the old owner is refused; from the fence on, requests of its that are still under way are too. A
//! crash between the two costs nothing: the new owner's first request raises the fence by itself.

use coracle_core::store::Durability;
use coracle_core::{Claim, Epoch, Error, Kind, Record, Result, RunId, SandboxId, State, lease};
use coracle_wire::Running;

use crate::gate::lost;
use crate::{Caller, Engine, crash};

/// A change of owner that was recorded.
#[derive(Debug)]
pub(crate) struct HandedOver {
    pub record: Record,
    /// Why the guest could not be told, if it could not.
    pub unfenced: Option<Error>,
}

impl Engine {
    /// Takes a sandbox that is nobody's. For its owner nothing changes.
    pub(crate) fn claim(&self, caller: &Caller, id: &SandboxId) -> Result<HandedOver> {
        let before = self.lasting(caller, id)?;
        self.crash_at(crash::CLAIM_CHECK_AFTER);
        let record = self.change_owner(id, &caller.claim, &lease::Event::Claim)?;
        self.crash_at(crash::CLAIM_ROW_AFTER);
        let unfenced = match record.lease.epoch() == before.lease.epoch() {
            true => None,
            false => self.fence(&record, Running::Keep),
        };
        self.crash_at(crash::CLAIM_FENCE_AFTER);
        Ok(HandedOver { record, unfenced })
    }

    /// Lends a sandbox to another run. Refused while execs run, unless it is said what becomes of them.
    pub(crate) fn transfer(
        &self,
        caller: &Caller,
        id: &SandboxId,
        to: &RunId,
        running: Option<Running>,
    ) -> Result<HandedOver> {
        let before = self.lasting(caller, id)?;
        let epoch = before.lease.admit(&caller.claim).map_err(|denied| denied.into_error(id))?;
        if running.is_none() {
            self.refuse_while_running(&before, epoch)?;
        }
        self.crash_at(crash::TRANSFER_CHECK_AFTER);
        // Bound to the epoch that was looked at: a change of owner in between must not be carried on from.
        let claim = Claim { run: caller.claim.run.clone(), epoch: Some(epoch) };
        let record = self.change_owner(id, &claim, &lease::Event::Transfer { to: to.clone() })?;
        self.crash_at(crash::TRANSFER_ROW_AFTER);
        let unfenced = self.fence(&record, running.unwrap_or(Running::Keep));
        self.crash_at(crash::TRANSFER_FENCE_AFTER);
        Ok(HandedOver { record, unfenced })
    }

    /// Gives a sandbox back to the run before. Running execs stay, unless told otherwise.
    pub(crate) fn release(&self, caller: &Caller, id: &SandboxId, running: Running) -> Result<HandedOver> {
        let before = self.find_for(caller, id)?;
        if before.state.is_ended() {
            return Err(before.state.refuse(id, "give back"));
        }
        self.crash_at(crash::RELEASE_CHECK_AFTER);
        let record = self.change_owner(id, &caller.claim, &lease::Event::Release)?;
        self.crash_at(crash::RELEASE_ROW_AFTER);
        let unfenced = self.fence(&record, running);
        self.crash_at(crash::RELEASE_FENCE_AFTER);
        Ok(HandedOver { record, unfenced })
    }

    /// Returns a record that is worth owning: neither half made nor on its way out.
    fn lasting(&self, caller: &Caller, id: &SandboxId) -> Result<Record> {
        let record = self.find_for(caller, id)?;
        match record.state {
            State::Creating
            | State::Spare
            | State::Destroying
            | State::DestroyFailed
            | State::Destroyed
            | State::Failed => Err(record.state.refuse(id, "hand over")),
            State::Ready
            | State::Paused
            | State::Hibernating
            | State::Hibernated
            | State::Resuming
            | State::Lost
            | State::Quarantined => Ok(record),
        }
    }

    fn change_owner(&self, id: &SandboxId, claim: &Claim, event: &lease::Event) -> Result<Record> {
        self.change(id, Durability::Power, &mut |mut row| {
            if row.state.is_ended() {
                return Err(row.state.refuse(&row.id, "hand over"));
            }
            row.lease = row.lease.step(claim, event).map_err(|denied| denied.into_error(&row.id))?;
            Ok(row)
        })
    }

    fn refuse_while_running(&self, record: &Record, epoch: Epoch) -> Result<()> {
        if !record.state.accepts_looks() {
            return Ok(());
        }
        let running = match self.reach(record, epoch) {
            Ok(mut guest) => guest.status()?.running,
            // A dead guest runs nothing.
            Err(error) if error.kind == Kind::NotAvailable => 0,
            Err(error) => return Err(error),
        };
        match running {
            0 => Ok(()),
            _ => Err(Error::new(
                Kind::Conflict,
                format!("{running} execs are running in sandbox `{}`", record.id),
            )
            .hint("say what becomes of them: `running` is `keep` or `kill`")
            .detail("sandbox_id", record.id.as_str())
            .detail("running", running)),
        }
    }

    fn fence(&self, record: &Record, running: Running) -> Option<Error> {
        match record.state {
            State::Ready | State::Paused => {}
            State::Lost => return Some(lost(&record.id, record.reason.as_deref())),
            _ => return None,
        }
        let fenced = self.reach(record, record.lease.epoch()).and_then(|mut guest| Ok(guest.fence(running)?));
        fenced.err()
    }
}
