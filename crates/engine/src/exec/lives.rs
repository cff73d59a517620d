//! Execs of earlier lives of a sandbox. A guest that ends by itself leaves them to the next; what one that was killed knew is
//! gone, and their events alone tell of them.

use std::time::Duration;

use coracle_core::event::{Event, Filter, Kind as EventKind};
use coracle_core::exec::Outcome;
use coracle_core::{Error, ExecId, Kind, Record, Result};
use coracle_wire::FaultCode;

use super::Execs;
use super::request::ExecRequest;
use crate::access::gate::Inside;
use crate::exec::progress::Progress;
use crate::guest::Failure;

/// An exec has a start and an end.
const EVENTS_OF_ONE: usize = 2;

impl Execs {
    /// Refuses to start a command of an earlier life that this guest does not know: it may have run.
    pub(super) fn expect_unstarted(
        &self,
        inside: &mut Inside,
        request: &ExecRequest,
        exec: &ExecId,
    ) -> Result<()> {
        let life = inside.record.life;
        let is_earlier = match (request.life, &request.exec_id) {
            (Some(meant), _) => meant != life,
            (None, Some(_)) if life > 1 => !self.told_of(&inside.record, exec)?.is_empty(),
            (None, _) => false,
        };
        if !is_earlier || knows(inside, exec)? {
            return Ok(());
        }
        let message = format!(
            "could not start exec `{exec}` in sandbox `{}`: it is of an earlier life, and this one, {life}, does not know it",
            inside.record.id
        );
        Err(Error::new(Kind::Conflict, message)
            .hint("see what it has done, and start it under a new `exec_id`, for this `life` or for any")
            .detail("exec_id", exec.as_str())
            .detail("life", life))
    }

    /// Returns what became of an exec that the guest does not know, if an earlier guest was killed that did; otherwise the
    /// guest's own answer.
    pub(crate) fn of_killed_life(
        &self,
        record: &Record,
        exec: &ExecId,
        failure: Failure,
    ) -> Result<Progress> {
        let is_unknown = matches!(&failure, Failure::Fault(fault) if fault.code == FaultCode::NotFound);
        if !is_unknown || record.life == 1 {
            return Err(failure.into());
        }
        let told = self.told_of(record, exec)?;
        match told.is_empty() {
            true => Err(failure.into()),
            false => Ok(told.iter().find_map(end_of).unwrap_or_else(Progress::lost)),
        }
    }

    fn told_of(&self, record: &Record, exec: &ExecId) -> Result<Vec<Event>> {
        let filter =
            Filter { sandbox: Some(record.id.clone()), exec: Some(exec.clone()), ..Filter::default() };
        let page = self.records.store().events(0, &filter, EVENTS_OF_ONE)?;
        Ok(page.events.into_iter().map(|numbered| numbered.event).collect())
    }
}

/// Tells whether a guest knows an exec.
fn knows(inside: &mut Inside, exec: &ExecId) -> Result<bool> {
    match inside.guest.wait(exec.as_str(), Duration::ZERO) {
        Ok(_) => Ok(true),
        Err(Failure::Fault(fault)) if fault.code == FaultCode::NotFound => Ok(false),
        Err(failure) => Err(failure.into()),
    }
}

/// Returns how an exec ended, by the event of it. Its output is gone.
fn end_of(event: &Event) -> Option<Progress> {
    if event.kind != EventKind::ExecEnded {
        return None;
    }
    let outcome: Outcome = serde_json::from_value(event.details.get("outcome")?.clone()).ok()?;
    let duration_ms = event.details.get("duration_ms").and_then(serde_json::Value::as_u64).unwrap_or(0);
    Some(Progress {
        outcome: Some(outcome),
        exit_code: outcome.exit_code(),
        duration_ms,
        truncated: outcome != Outcome::Lost,
        ..Progress::lost()
    })
}
