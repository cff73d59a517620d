//! Changes of state that more than one component writes.

use std::time::Duration;

use coracle_core::store::Durability;
use coracle_core::{Record, Result, SandboxId, Timestamp, duration, lifecycle};

use super::Records;

impl Records {
    /// Records what happened to a sandbox, and why.
    pub(crate) fn note(&self, id: &SandboxId, event: lifecycle::Event, reason: &str) -> Result<()> {
        self.ballast.freeing(|| {
            let noted = self.change(id, Durability::Process, &mut |mut row| {
                row.state = row.state.step(event).map_err(|refused| refused.into_error(&row.id))?;
                row.reason = Some(reason.to_owned());
                Ok(row)
            });
            noted.map(drop)
        })
    }

    /// Writes the tombstone; a record that has ended in the meantime is returned as it is.
    pub(crate) fn entomb(&self, id: &SandboxId, allow: &dyn Fn(&Record) -> Result<()>) -> Result<Record> {
        self.ballast.freeing(|| {
            self.change(id, Durability::Process, &mut |mut row| {
                allow(&row)?;
                if !row.state.is_ended() {
                    row.state = row
                        .state
                        .step(lifecycle::Event::Destroy)
                        .map_err(|refused| refused.into_error(&row.id))?;
                }
                Ok(row)
            })
        })
    }

    /// Records that a sandbox was idle for as long as it may be, until `ended`.
    pub(crate) fn expire(&self, id: &SandboxId, ended: Timestamp) -> Result<Record> {
        self.ballast.freeing(|| {
            self.change(id, Durability::Process, &mut |mut row| {
                row.state =
                    row.state.step(lifecycle::Event::Idled).map_err(|refused| refused.into_error(&row.id))?;
                let limit = row.spec.limits.idle();
                let since = before(ended, limit).max(row.created_at);
                row.reason = Some(match &row.kept {
                    None => format!("idle since {since}, for the {} it may be idle", duration::shown(limit)),
                    Some(kept) => {
                        format!("asleep since {}, for as long as sleepers are kept", kept.since.wall)
                    }
                });
                row.idle_since = Some(since);
                Ok(row)
            })
        })
    }
}

fn before(moment: Timestamp, span: Duration) -> Timestamp {
    Timestamp::from_millis(
        moment.as_millis().saturating_sub(u64::try_from(span.as_millis()).unwrap_or(u64::MAX)),
    )
}
