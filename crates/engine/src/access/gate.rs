//! The ownership gate: the only way to the guest of a sandbox.
//!
//! The store is asked first, so that most intruders are turned away with a name to turn to; the guest checks the
//! epoch again, and its check is the one that counts. Where a change of owner has left something to be killed, no caller
//! gets through before it is.
//!
//! The engine itself comes by [`Access::visit`], for no caller: to fetch output before a sandbox goes, to ask how it is
//! without that being a use of it, to serve its network, and to check out a repository before it is ready. Otherwise it starts and
//! changes nothing there.

use std::os::unix::net::UnixStream;

use coracle_core::reconcile::Reason;
use coracle_core::store::Durability;
use coracle_core::{Epoch, Error, Kind, Record, Result, SandboxId, State, lifecycle};
use coracle_wire::{Acting, Refusal};

use super::Access;
use crate::access::expiry::{asleep, refuse};
use crate::access::tie::Tied;
use crate::guest::{Failure, Guest};
use crate::records::unknown;
use crate::{Caller, crash, spans};

/// An admitted caller, connected.
#[derive(Debug)]
pub(crate) struct Inside {
    pub record: Record,
    pub guest: Guest,
    /// What ends with the connection.
    pub tied: Option<Tied>,
}

impl Inside {
    /// Requests about files have the rights of the user commands run as, unless [`Inside::act_as`] names another. The
    /// guest refuses a user it does not know.
    pub fn new(record: Record, mut guest: Guest) -> Self {
        guest.act_for(Some(Acting { user: record.user().map(|user| user.as_bytes().to_vec()) }));
        Self { record, guest, tied: None }
    }
}

impl Access {
    /// Lets the caller in, if the sandbox takes work and is the caller's.
    pub(crate) fn enter(&self, caller: &Caller, id: &SandboxId) -> Result<Inside> {
        let (record, epoch) = self.admit(caller, id)?;
        // Before it writes: what it syncs must not be lost for want of room.
        self.headroom.watch();
        let guest = self.reach(&record, epoch)?;
        Ok(Inside::new(record, guest))
    }

    /// Lets the caller in to look: what is paused can be looked at.
    pub(crate) fn enter_to_look(&self, caller: &Caller, id: &SandboxId) -> Result<Inside> {
        let (record, epoch) = self.admit_if(caller, id, State::accepts_looks)?;
        let guest = self.reach(&record, epoch)?;
        Ok(Inside::new(record, guest))
    }

    /// Returns the record and the epoch to act under.
    pub(crate) fn admit(&self, caller: &Caller, id: &SandboxId) -> Result<(Record, Epoch)> {
        self.admit_if(caller, id, State::accepts_work)
    }

    fn admit_if(
        &self,
        caller: &Caller,
        id: &SandboxId,
        accepts: fn(State) -> bool,
    ) -> Result<(Record, Epoch)> {
        let admitted = spans::within(spans::admit(id), || self.check(caller, id, accepts));
        if let Ok((record, _)) = &admitted {
            spans::name(record);
        }
        admitted
    }

    fn check(&self, caller: &Caller, id: &SandboxId, accepts: fn(State) -> bool) -> Result<(Record, Epoch)> {
        let record = self.find_for(caller, id)?;
        // The owner of a sandbox that has ended does not matter. A spare, or one in quarantine, has no owner and gets none:
        // to advise claiming it would not help.
        if record.state.is_ended() || matches!(record.state, State::Spare | State::Quarantined) {
            return Err(refuse(&record, "use"));
        }
        let epoch = record.lease.admit(&caller.claim).map_err(|denied| denied.into_error(id))?;
        match record.state {
            State::Lost => Err(lost(id, record.reason.as_deref())),
            State::Hibernated | State::Resuming => Err(asleep(id)),
            state if accepts(state) => Ok((record, epoch)),
            state => Err(state.refuse(id, "use")),
        }
    }

    /// Connects to the guest under `epoch`. A guest that is gone leaves the sandbox asleep, `lost` or
    /// `expired`.
    pub(crate) fn reach(&self, record: &Record, epoch: Epoch) -> Result<Guest> {
        let mut guest = spans::within(spans::connect(record), || self.greet(record, epoch))?;
        self.carry_out_kill(record, &mut guest)?;
        Ok(guest)
    }

    /// Has the guest kill what the record says is still to be killed, and notes it once the guest has confirmed it. Doing
    /// it again does no more: a later owner's commands are from a later epoch.
    pub(crate) fn carry_out_kill(&self, record: &Record, guest: &mut Guest) -> Result<()> {
        let Some(before) = record.pending_kill else { return Ok(()) };
        guest.kill_before(before)?;
        self.records.crash_at(crash::KILL_CONFIRM_AFTER);
        // Lost with the machine's power, it is done again; there is nothing left to kill then.
        let confirmed = self.headroom.freeing(|| {
            self.records.change(&record.id, Durability::Process, &mut |mut row| {
                row.pending_kill = row.pending_kill.filter(|pending| *pending != before);
                Ok(row)
            })
        });
        confirmed.map(drop)
    }

    fn greet(&self, record: &Record, epoch: Epoch) -> Result<Guest> {
        if record.boot != self.records.boot() && self.placement.backend_of(record)?.ends_with_this_machine() {
            return Err(self.end_without_guest(record, Reason::Restarted));
        }
        match self.knock(record, epoch)? {
            Err(Failure::Gone) => {}
            // Another call has woken the sandbox since this one read its record.
            Err(Failure::Refused(Refusal::WrongSecret)) if self.has_woken(record)? => {
                return Err(asleep(&record.id));
            }
            answer => return Ok(answer?),
        }
        // It hung up on us: dying, most likely. The second attempt tells.
        Ok(self.knock(record, epoch)??)
    }

    /// Tells whether a sandbox has another guest than its record says.
    fn has_woken(&self, record: &Record) -> Result<bool> {
        Ok(self.records.find(&record.id)?.life != record.life)
    }

    fn knock(&self, record: &Record, epoch: Epoch) -> Result<Result<Guest, Failure>> {
        match self.stream_to(record) {
            Ok(stream) => Ok(Guest::connect(stream, &record.secret, epoch)),
            Err(error) if error.kind == Kind::NotFound => {
                let ended = self.end_without_guest(record, Reason::GuestGone);
                // Why a guest does not answer matters only where its end is not explained.
                Err(if ended.kind == Kind::NotFound { ended } else { ended.caused_by(error) })
            }
            Err(error) => Err(error),
        }
    }

    /// Connects to a guest for the engine itself. Nothing is written down about one that is gone.
    pub(crate) fn visit(&self, record: &Record) -> Result<Guest> {
        Ok(introduce(record, self.stream_to(record)?)?)
    }

    /// Returns what a guest says of itself, if it answers; the sandbox is not in use by that.
    pub(crate) fn status_unnoticed(&self, record: &Record) -> Option<coracle_wire::Status> {
        let guest = record.state.accepts_looks().then(|| self.visit(record))?;
        guest.ok()?.status_unnoticed().ok()
    }

    /// Opens a stream to a guest, on which nothing was said yet.
    pub(crate) fn stream_to(&self, record: &Record) -> Result<UnixStream> {
        let placement = record.placement.as_ref().ok_or_else(|| unknown(&record.id))?;
        self.placement.backend_of(record)?.connect(&record.id, placement)
    }

    /// Records that a sandbox vanished and returns what to tell the caller.
    pub(crate) fn lose(&self, record: &Record, reason: &str) -> Error {
        match self.records.note(&record.id, lifecycle::Event::Vanished, reason) {
            Ok(()) => lost(&record.id, Some(reason)),
            // Another call was faster, closing it perhaps; the state it left is the answer.
            Err(error) => match self.records.find(&record.id) {
                Ok(row) if row.state == State::Lost => lost(&row.id, row.reason.as_deref()),
                Ok(row) if !row.state.accepts_work() => refuse(&row, "use"),
                Ok(_) => error,
                Err(unknown) => unknown,
            },
        }
    }
}

/// Greets a guest for the engine itself.
pub(crate) fn introduce(record: &Record, stream: UnixStream) -> Result<Guest, Failure> {
    Guest::connect(stream, &record.secret, record.lease.epoch())
}

/// Says that a sandbox is gone without anyone having destroyed it.
pub(crate) fn lost(id: &SandboxId, reason: Option<&str>) -> Error {
    let reason = reason.map(|reason| format!(": {reason}")).unwrap_or_default();
    Error::new(Kind::NotAvailable, format!("sandbox `{id}` is lost{reason}"))
        .hint("close it and open a new one; `gc` removes what is left of it")
        .detail("sandbox_id", id.as_str())
        .detail("state", State::Lost.as_str())
}
