//! What a guest that is gone makes of its sandbox: expired if it was idle for as long as it may be, over if its client is
//! gone, and lost if nobody ordered its end.

use std::time::Duration;

use coracle_core::backend::GuestEnd;
use coracle_core::reconcile::Reason;
use coracle_core::store::Durability;
use coracle_core::{Error, Record, Result, SandboxId, State, Timestamp, duration, lifecycle};

use crate::Engine;

impl Engine {
    /// Records how a sandbox ended whose guest is proved to be gone, and returns what to tell the caller. If the
    /// guest has not written why it ended, the sandbox is lost, for this `reason`.
    pub(crate) fn end_without_guest(&self, record: &Record, reason: Reason) -> Error {
        let end = self.backend_of(record).ok().and_then(|backend| backend.guest_end(&record.id));
        let noted = match end {
            None => return self.lose(record, &reason.to_string()),
            Some(GuestEnd::Idle { ended }) => self.expire(&record.id, ended),
            // The janitor removes what is left.
            Some(GuestEnd::Untied) => self.entomb(&record.id, &|_| Ok(())),
        };
        match noted.or_else(|_| self.find(&record.id)) {
            Ok(row) => refuse(&row, "use"),
            Err(error) => error,
        }
    }

    /// Records that a sandbox was idle for as long as it may be, until `ended`.
    pub(crate) fn expire(&self, id: &SandboxId, ended: Timestamp) -> Result<Record> {
        self.freeing(|| {
            self.change(id, Durability::Process, &mut |mut row| {
                row.state =
                    row.state.step(lifecycle::Event::Idled).map_err(|refused| refused.into_error(&row.id))?;
                let limit = row.spec.limits.idle();
                let since = before(ended, limit).max(row.created_at);
                row.reason =
                    Some(format!("idle since {since}, for the {} it may be idle", duration::shown(limit)));
                row.idle_since = Some(since);
                Ok(row)
            })
        })
    }
}

/// Refuses an operation on a sandbox that does not admit it; says of one that has expired since when it was idle.
pub(crate) fn refuse(record: &Record, verb: &str) -> Error {
    let mut refused = record.state.refuse(&record.id, verb);
    if let (State::Expired, Some(reason), Some(since)) = (record.state, &record.reason, record.idle_since) {
        refused.message = format!("{}: {reason}", refused.message);
        refused = refused.detail("idle_since", since.as_millis());
    }
    refused
}

fn before(moment: Timestamp, span: Duration) -> Timestamp {
    Timestamp::from_millis(
        moment.as_millis().saturating_sub(u64::try_from(span.as_millis()).unwrap_or(u64::MAX)),
    )
}
