//! Changes of owner: the row first, then the fence in the guest.
//!
//! From the row on the old owner is refused; from the fence on, requests of its that are still under way are too. A
//! crash between the two costs nothing: the new owner's first request raises the fence by itself. What must not outlive
//! the change is noted in the row with it, and killed before that request is served: a guest that could not be told, or
//! a caller that died, changes nothing about it.

use coracle_core::count::counted;
use coracle_core::store::Durability;
use coracle_core::{Claim, Epoch, Error, Kind, Record, Result, RunId, SandboxId, State, lease};
use coracle_egress::weak::{self, Wall};
use coracle_wire::{FaultCode, Running};

use super::Access;
use crate::access::expiry::is_asleep;
use crate::access::gate::lost;
use crate::guest::hold::LEASE;
use crate::guest::{Failure, Guest};
use crate::{Caller, crash};

/// A change of owner that was recorded.
#[derive(Debug)]
pub(crate) struct HandedOver {
    pub record: Record,
    /// Why the guest could not be told, if it could not.
    pub unfenced: Option<Error>,
}

impl Access {
    /// Takes a sandbox without an owner. For its owner nothing changes.
    pub(crate) fn claim(&self, caller: &Caller, id: &SandboxId) -> Result<HandedOver> {
        let before = self.lasting(caller, id)?;
        self.records.crash_at(crash::CLAIM_CHECK_AFTER);
        let record = self.change_owner(id, &caller.claim, &lease::Event::Claim, Running::Keep)?;
        self.records.crash_at(crash::CLAIM_ROW_AFTER);
        let unfenced = match record.lease.epoch() == before.lease.epoch() {
            true => None,
            false => self.fence(&record, None).err(),
        };
        self.records.crash_at(crash::CLAIM_FENCE_AFTER);
        Ok(HandedOver { record, unfenced })
    }

    /// Lends a sandbox to another run. Refused while execs run, unless it is said what becomes of them.
    ///
    /// Without a word, changes wait in the guest from the look at what runs until its fence is raised. What gets in all the
    /// same, because the guest is too old for that or let go in between, is killed like what was said to be.
    pub(crate) fn transfer(
        &self,
        caller: &Caller,
        id: &SandboxId,
        to: &RunId,
        running: Option<Running>,
    ) -> Result<HandedOver> {
        let before = self.lasting(caller, id)?;
        let epoch = before.lease.admit(&caller.claim).map_err(|denied| denied.into_error(id))?;
        let held = match running {
            None => self.hold_idle(caller, &before, epoch)?,
            Some(_) => None,
        };
        self.records.crash_at(crash::TRANSFER_CHECK_AFTER);
        // Bound to the epoch that was looked at: a change of owner in between must not be carried on from.
        let claim = Claim { run: caller.claim.run.clone(), epoch: Some(epoch) };
        let event = lease::Event::Transfer { to: to.clone() };
        let record = self.change_owner(id, &claim, &event, running.unwrap_or(Running::Kill))?;
        self.records.crash_at(crash::TRANSFER_ROW_AFTER);
        let unfenced = self.fence(&record, held).err();
        self.records.crash_at(crash::TRANSFER_FENCE_AFTER);
        Ok(HandedOver { record, unfenced })
    }

    /// Gives a sandbox back to the run before. Running execs stay, unless told otherwise.
    pub(crate) fn release(&self, caller: &Caller, id: &SandboxId, running: Running) -> Result<HandedOver> {
        let before = self.find_for(caller, id)?;
        if before.state.is_ended() {
            return Err(before.state.refuse(id, "give back"));
        }
        self.records.crash_at(crash::RELEASE_CHECK_AFTER);
        let record = self.change_owner(id, &caller.claim, &lease::Event::Release, running)?;
        self.records.crash_at(crash::RELEASE_ROW_AFTER);
        let unfenced = self.fence(&record, None).err();
        self.records.crash_at(crash::RELEASE_FENCE_AFTER);
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
            | State::Failed
            | State::Expired => Err(record.state.refuse(id, "hand over")),
            State::Ready
            | State::Paused
            | State::Hibernating
            | State::Hibernated
            | State::Resuming
            | State::Lost
            | State::Quarantined => Ok(record),
        }
    }

    /// Changes the owner, and notes in the same step what is to be killed for it.
    fn change_owner(
        &self,
        id: &SandboxId,
        claim: &Claim,
        event: &lease::Event,
        running: Running,
    ) -> Result<Record> {
        self.records.change(id, Durability::Power, &mut |mut row| {
            if row.state.is_ended() {
                return Err(row.state.refuse(&row.id, "hand over"));
            }
            row.lease = row.lease.step(claim, event).map_err(|denied| denied.into_error(&row.id))?;
            // Where there is no guest, there is nothing to kill, and nothing to confirm it.
            let noted = row.state.accepts_looks() && !weak::off(Wall::Handover);
            if running == Running::Kill && noted {
                row.pending_kill = Some(row.lease.epoch());
            }
            Ok(row)
        })
    }

    /// Refuses if anything runs. Otherwise changes wait until the connection that is returned ends; there is none where
    /// there is no guest, or it is too old to have them wait.
    fn hold_idle(&self, caller: &Caller, record: &Record, epoch: Epoch) -> Result<Option<Guest>> {
        if !record.state.accepts_looks() {
            return Ok(None);
        }
        let mut guest = match self.reach(record, epoch) {
            Ok(guest) => guest,
            // A dead guest runs nothing. One that only does not answer may run anything.
            Err(error) if is_asleep(&error) => return Ok(None),
            Err(_) if self.records.find(&record.id)?.state == State::Lost => return Ok(None),
            Err(error) => return Err(error),
        };
        let held = match weak::off(Wall::Handover) {
            false => hold_changes(&mut guest).map_err(|failure| self.reword(caller, record, failure))?,
            true => false,
        };
        match guest.status()?.running {
            0 => Ok(held.then_some(guest)),
            running => Err(busy(record, running)),
        }
    }

    /// Says who the owner is where the guest only knows that it has changed.
    fn reword(&self, caller: &Caller, record: &Record, failure: Failure) -> Error {
        let error = Error::from(failure);
        let denied = |row: Record| row.lease.admit(&caller.claim).err();
        match self.records.find(&record.id).ok().filter(|_| error.kind == Kind::StaleEpoch).and_then(denied) {
            Some(denied) => denied.into_error(&record.id),
            None => error,
        }
    }

    /// Raises the guest's fence, and has it kill what the row says; over the connection that holds it, if there is one.
    fn fence(&self, record: &Record, held: Option<Guest>) -> Result<()> {
        match record.state {
            State::Ready | State::Paused => {}
            State::Lost => return Err(lost(&record.id, record.reason.as_deref())),
            _ => return Ok(()),
        }
        let epoch = record.lease.epoch();
        let was_held = held.is_some();
        let mut guest = match held {
            Some(mut guest) => {
                guest.act_under(epoch);
                self.carry_out_kill(record, &mut guest)?;
                guest
            }
            None => match self.reach(record, epoch) {
                // Nothing of the old owner runs, and the next guest starts under this epoch.
                Err(error) if is_asleep(&error) => return Ok(()),
                reached => reached?,
            },
        };
        // A kill has raised it already.
        if record.pending_kill.is_none() {
            guest.fence()?;
        }
        if was_held {
            // What waited is refused from here on. Where this fails the end of the connection does the same.
            let _ = guest.let_go();
        }
        Ok(())
    }
}

/// Tells whether changes wait from now on.
fn hold_changes(guest: &mut Guest) -> Result<bool, Failure> {
    match guest.hold_changes(LEASE) {
        Ok(_) => Ok(true),
        // An older guest does not know how, or has no way to do it while something runs.
        Err(Failure::Fault(fault)) if matches!(fault.code, FaultCode::Unknown | FaultCode::Unsupported) => {
            Ok(false)
        }
        Err(failure) => Err(failure),
    }
}

fn busy(record: &Record, running: u64) -> Error {
    let running_now = counted(running, "exec is", "execs are");
    Error::new(Kind::Conflict, format!("{running_now} running in sandbox `{}`", record.id))
        .hint("decide what becomes of them: `running` is `keep` or `kill`")
        .detail("sandbox_id", record.id.as_str())
        .detail("running", running)
}
