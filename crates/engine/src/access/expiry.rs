//! What a guest that is gone makes of its sandbox: asleep if it hibernates and its files are there, expired if it was idle for
//! as long as it may be, over if its client is gone, and lost if its end was not ordered.

use coracle_core::backend::GuestEnd;
use coracle_core::reconcile::Reason;
use coracle_core::spec::OnIdle;
use coracle_core::{Error, Record, SandboxId, State, Timestamp, duration};

use super::Access;

impl Access {
    /// Records how a sandbox ended whose guest is proved to be gone, and returns what to tell the caller. If the
    /// guest has not written why it ended, the sandbox is lost, for this `reason`.
    pub(crate) fn end_without_guest(&self, record: &Record, reason: Reason) -> Error {
        let backend = self.placement.backend_of(record).ok();
        let end = backend.and_then(|backend| backend.guest_end(&record.id));
        let hibernates = record.spec.on_idle() == OnIdle::Hibernate;
        let sleeps = match end {
            Some(GuestEnd::Asleep { .. }) => hibernates,
            // After a restart its files may not all be on the disk.
            Some(GuestEnd::Idle { .. }) | None => hibernates && reason != Reason::Restarted,
            Some(GuestEnd::Untied) => false,
        };
        // Only proof that they are gone ends it: waking says what could not be looked at.
        let may_have_files = || Some(backend?.hibernation()?.has_files(&record.id).unwrap_or(true));
        if sleeps && may_have_files() == Some(true) {
            return asleep(&record.id);
        }
        let noted = match end {
            None => return self.lose(record, &reason.to_string()),
            Some(GuestEnd::Idle { .. }) if hibernates && reason == Reason::Restarted => {
                return self.lose(record, &Reason::Unsynced.to_string());
            }
            Some(GuestEnd::Idle { ended } | GuestEnd::Asleep { ended }) => {
                self.records.expire(&record.id, ended)
            }
            // The janitor removes what is left.
            Some(GuestEnd::Untied) => self.records.entomb(&record.id, &|_| Ok(())),
        };
        match noted.or_else(|_| self.records.find(&record.id)) {
            Ok(row) => refuse(&row, "use"),
            Err(error) => error,
        }
    }
}

/// Says that a sandbox sleeps. [`is_asleep`] knows it by that.
pub(crate) fn asleep(id: &SandboxId) -> Error {
    State::Hibernated.refuse(id, "use")
}

/// Tells whether the gate let the caller in and found the sandbox asleep.
pub(crate) fn is_asleep(error: &Error) -> bool {
    error.details.get("state").is_some_and(|state| *state == State::Hibernated.as_str())
}

/// Refuses an operation on a sandbox that does not admit it; says of one that has expired since when it was idle.
pub(crate) fn refuse(record: &Record, verb: &str) -> Error {
    let mut refused = record.state.refuse(&record.id, verb);
    if let (State::Expired, Some(since)) = (record.state, record.idle_since) {
        refused.message = expired(record, since);
        let setting = if record.kept.is_some() {
            "`hibernate.keep` sets how long it may sleep"
        } else {
            "`ttl` sets how long it may be idle"
        };
        refused = refused
            .hint(format!("open a new one; {setting}, and mounted directories and volumes outlive it"))
            .detail("idle_since", since.as_millis());
    }
    refused
}

fn expired(record: &Record, since: Timestamp) -> String {
    let idle = duration::shown(record.spec.limits.idle());
    let files = match record.spec.mounts.is_empty() {
        true => "its files are gone",
        false => "its files are gone, except for what was mounted",
    };
    match &record.kept {
        None => format!("sandbox `{}` expired: it was idle for {idle} (since {since}); {files}", record.id),
        Some(kept) => format!(
            "sandbox `{}` expired: it slept since {} for as long as sleepers are kept; {files}",
            record.id, kept.since.wall
        ),
    }
}
