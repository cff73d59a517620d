//! Destroying a sandbox: tombstone, removal, record. Safe to repeat after a crash at any point.

use coracle_core::store::Durability;
use coracle_core::{Cancel, Error, Kind, Record, Result, SandboxId, lifecycle};

use super::Lifecycle;
use crate::records::unknown;
use crate::{Call, Caller, crash, spans};

/// What can be read of a sandbox when it is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Afterwards {
    /// What its execs have printed, for a while.
    Output,
    /// Nothing: its caller has read what there was.
    Nothing,
}

impl Lifecycle {
    /// Destroys a sandbox for a caller that may do so. One that has ended already is fine. Cancelling ends the wait for
    /// another's work on it, and nothing later: what has begun to go goes.
    pub(crate) fn close(&self, call: &Call, id: &SandboxId) -> Result<()> {
        let allow = |record: &Record| may_close(&call.caller, record);
        self.teardown_unless(&call.cancel, id, Afterwards::Output, &allow)
    }

    /// Destroys a sandbox if `allow` says yes, looking again inside the transaction that decides it.
    pub(crate) fn teardown(
        &self,
        id: &SandboxId,
        afterwards: Afterwards,
        allow: &dyn Fn(&Record) -> Result<()>,
    ) -> Result<()> {
        self.teardown_unless(&Cancel::default(), id, afterwards, allow)
    }

    fn teardown_unless(
        &self,
        cancel: &Cancel,
        id: &SandboxId,
        afterwards: Afterwards,
        allow: &dyn Fn(&Record) -> Result<()>,
    ) -> Result<()> {
        let record = self.records.find(id)?;
        allow(&record)?;
        spans::name(&record);
        if record.state.is_ended() {
            return Ok(());
        }
        let _work = self.headroom.freeing(|| self.records.store().work_on(id, cancel))?;
        self.records.crash_at(crash::DESTROY_ROW_BEFORE);
        let record = self.records.entomb(id, allow)?;
        self.records.crash_at(crash::DESTROY_ROW_AFTER);
        if record.state.is_ended() {
            return Ok(());
        }
        match afterwards {
            // Behind the tombstone: nothing is started any more, and its guest is still there.
            Afterwards::Output => self.execs.collect_logs(&record),
            Afterwards::Nothing => {}
        }
        self.remove(&record)
    }

    /// Removes a sandbox that is `destroying` and records how that went. The caller holds the right to work on it.
    pub(crate) fn remove(&self, record: &Record) -> Result<()> {
        let span = spans::destroy(record);
        // Its log goes with it.
        spans::denied(&span, || self.egress.last_denial(record));
        spans::within(span, || self.take_away(record))
    }

    fn take_away(&self, record: &Record) -> Result<()> {
        let removed = self.headroom.freeing(|| self.placement.backend_of(record)?.destroy(&record.id));
        self.records.crash_at(crash::DESTROY_BACKEND_AFTER);
        let removed = removed.and_then(|()| self.headroom.freeing(|| self.egress.unkeep(&record.id)));
        self.records.crash_at(crash::DESTROY_KEEPER_AFTER);
        match &removed {
            Ok(()) => self.note_removed(record)?,
            Err(error) => self.records.note(&record.id, lifecycle::Event::NotRemoved, &error.chain())?,
        }
        self.records.crash_at(crash::DESTROY_END_AFTER);
        removed.map_err(|error| not_removed(&record.id, error))
    }

    /// The reason stays: why a sandbox was given up is worth more than that it is gone.
    fn note_removed(&self, record: &Record) -> Result<()> {
        self.headroom.freeing(|| {
            let removed = self.records.change(&record.id, Durability::Process, &mut |mut row| {
                row.state = row
                    .state
                    .step(lifecycle::Event::Removed)
                    .map_err(|refused| refused.into_error(&row.id))?;
                Ok(row)
            });
            removed.map(drop)
        })
    }
}

/// Closing needs the ownership, except where there is none to respect: a sandbox without an owner, or one that is lost.
pub(crate) fn may_close(caller: &Caller, record: &Record) -> Result<()> {
    if !caller.sees(record) {
        return Err(unknown(&record.id));
    }
    caller.check_reach(record)?;
    if record.lease.owner().is_none() || record.state == lifecycle::State::Lost {
        return Ok(());
    }
    record.lease.admit(&caller.claim).map(drop).map_err(|denied| denied.into_error(&record.id))
}

fn not_removed(id: &SandboxId, error: Error) -> Error {
    // Where its backend cannot be asked now, nothing is wrong with the sandbox.
    let kind = if error.kind == Kind::NotAvailable { Kind::NotAvailable } else { Kind::Internal };
    Error::new(kind, format!("could not remove all of sandbox `{id}`"))
        .hint(match kind {
            Kind::NotAvailable => {
                "`gc` tries again when it answers; `close --forget` gives up on it and says what is left behind"
            }
            _ => "`gc` tries again; `doctor --orphans` shows what is left",
        })
        .detail("sandbox_id", id.as_str())
        .caused_by(error)
}
