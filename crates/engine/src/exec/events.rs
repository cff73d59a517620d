//! Events of execs: their start and end. No change of a record tells these: the call that sees one tells it, and
//! repeats are dropped.

use std::time::Duration;

use coracle_core::event::{self, End, Event};
use coracle_core::observed::Moment;
use coracle_core::{ExecId, Record};
use coracle_wire::ExecState;

use super::Execs;
use crate::exec::progress::Progress;

impl Execs {
    /// Queues the event that an exec was started, not before `at`: a call that runs a command to its end does not wait for
    /// the disk.
    pub(crate) fn tell_started_soon(&self, record: &Record, exec: &ExecId, at: Moment) {
        self.records.tell_soon(event::exec_started(record, exec, at));
    }

    /// Queues the event that an exec has ended, if it has.
    pub(crate) fn tell_ended_soon(&self, record: &Record, exec: &ExecId, state: &ExecState) {
        if let Some(ended) = self.end_of(record, exec, state) {
            self.records.tell_soon(ended);
        }
    }

    /// Writes the event that an exec was started, not before `at`. Does not queue it: this process may be gone before the
    /// queue is written.
    pub(crate) fn tell_started(&self, record: &Record, exec: &ExecId, at: Moment) {
        self.records.tell_now(&[event::exec_started(record, exec, at)]);
    }

    /// Writes the event that an exec has ended, if it has.
    pub(crate) fn tell_ended(&self, record: &Record, exec: &ExecId, state: &ExecState) {
        self.records.tell_now(&self.life_of(record, exec, state));
    }

    /// Returns what to tell of an exec that has ended, its start included: the process that started it may have been killed
    /// before it could tell. What is known is not told again.
    pub(crate) fn life_of(&self, record: &Record, exec: &ExecId, state: &ExecState) -> Vec<Event> {
        let Some(ended) = self.end_of(record, exec, state) else { return Vec::new() };
        let ended_at = Moment { wall: ended.at, observed: ended.observed };
        let began = ended_at.before(Duration::from_millis(state.duration_ms));
        vec![event::exec_started(record, exec, began), ended]
    }

    /// Returns what to tell of the end of an exec; nothing while it runs.
    fn end_of(&self, record: &Record, exec: &ExecId, state: &ExecState) -> Option<Event> {
        state.ending?;
        let Progress { outcome, duration_ms, limits_hit, .. } = Progress::of(state);
        let end = End { outcome: outcome?, duration_ms: Some(duration_ms), limits_hit };
        Some(event::exec_ended(record, exec, ended_at(self.records.moment().ok()?, state), &end))
    }
}

/// Returns when an exec ended, as far as its guest says: it may have been long ago.
fn ended_at(now: Moment, state: &ExecState) -> Moment {
    let ago = state.age_ms.map_or(0, |age| age.saturating_sub(state.duration_ms));
    now.before(Duration::from_millis(ago))
}
