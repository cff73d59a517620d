//! Pauses and resumes sandboxes. A pause writes the row first, then freezes the commands; a resume thaws them first. A
//! crash in between leaves a sandbox that says `paused` and may still run; repeating either call repairs that.

use coracle_core::store::Durability;
use coracle_core::{Error, Record, Result, SandboxId, State, lifecycle};

use super::Lifecycle;
use crate::access::expiry::is_asleep;
use crate::guest::Pace;
use crate::{Call, Caller, crash};

impl Lifecycle {
    /// Freezes all commands of a sandbox. Does nothing to one that is paused already.
    pub(crate) fn pause(&self, call: &Call, id: &SandboxId) -> Result<Record> {
        let caller = &call.caller;
        self.entry.rouse(call, id)?;
        let record = self.running_or_paused(caller, id, "pause")?;
        self.placement.backend_of(&record)?.check_pausing()?;
        let _work = self.records.store().work_on(id, &call.cancel)?;
        let record = self.step(caller, id, lifecycle::Event::Pause, State::Paused)?;
        self.records.crash_at(crash::PAUSE_ROW_AFTER);
        match self.set_pace(&record, Pace::Still) {
            Ok(()) => {
                self.records.crash_at(crash::PAUSE_FREEZE_AFTER);
                Ok(record)
            }
            Err(error) if is_asleep(&error) => Err(error),
            Err(error) => Err(self.undo_pause(caller, &record, error)),
        }
    }

    /// Lets all commands of a sandbox go on. Does nothing to one that runs already.
    pub(crate) fn resume(&self, call: &Call, id: &SandboxId) -> Result<Record> {
        let caller = &call.caller;
        self.entry.rouse(call, id)?;
        self.running_or_paused(caller, id, "resume")?;
        let _work = self.records.store().work_on(id, &call.cancel)?;
        let record = self.running_or_paused(caller, id, "resume")?;
        self.set_pace(&record, Pace::Going)?;
        self.records.crash_at(crash::RESUME_THAW_AFTER);
        let record = self.step(caller, id, lifecycle::Event::Unpause, State::Ready)?;
        self.records.crash_at(crash::RESUME_ROW_AFTER);
        Ok(record)
    }

    /// Returns the record of a sandbox that the caller owns and that runs or is paused.
    pub(crate) fn running_or_paused(&self, caller: &Caller, id: &SandboxId, verb: &str) -> Result<Record> {
        let record = self.access.find_for(caller, id)?;
        if record.state.is_ended() {
            return Err(record.state.refuse(id, verb));
        }
        record.lease.admit(&caller.claim).map_err(|denied| denied.into_error(id))?;
        match record.state {
            State::Ready | State::Paused => Ok(record),
            State::Lost => Err(crate::access::gate::lost(id, record.reason.as_deref())),
            state => Err(state.refuse(id, verb)),
        }
    }

    /// Moves the row by `event`, unless it is in `target` already; the owner is looked at in the same transaction.
    fn step(
        &self,
        caller: &Caller,
        id: &SandboxId,
        event: lifecycle::Event,
        target: State,
    ) -> Result<Record> {
        self.records.change(id, Durability::Process, &mut |mut row| {
            row.lease.admit(&caller.claim).map_err(|denied| denied.into_error(&row.id))?;
            if row.state != target {
                row.state = row.state.step(event).map_err(|refused| refused.into_error(&row.id))?;
            }
            Ok(row)
        })
    }

    /// Tells the guest. One that has ended leaves a sandbox that sleeps; the caller holds its work lock.
    fn set_pace(&self, record: &Record, pace: Pace) -> Result<()> {
        match self.access.reach(record, record.lease.epoch()) {
            Err(error) if is_asleep(&error) => {
                self.entry.put_to_rest(record)?;
                Err(error)
            }
            reached => Ok(reached?.set_pace(pace)?),
        }
    }

    /// What could not be frozen goes on, and its row says so.
    fn undo_pause(&self, caller: &Caller, record: &Record, error: Error) -> Error {
        let undone = self
            .set_pace(record, Pace::Going)
            .and_then(|()| self.step(caller, &record.id, lifecycle::Event::Unpause, State::Ready));
        match undone {
            Ok(_) => error,
            Err(left) => error.detail("not_resumed", left.chain()),
        }
    }
}
