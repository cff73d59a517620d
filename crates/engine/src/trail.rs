//! The events that no change of a record tells: commands that start and end. Whoever sees one first tells it.

use coracle_core::clock::Timestamp;
use coracle_core::event::{self, End, Event};
use coracle_core::{ExecId, Record};
use coracle_wire::ExecState;

use crate::Engine;
use crate::progress::Progress;

impl Engine {
    /// Tells that an exec was started, not before `at`.
    pub(crate) fn tell_started(&self, record: &Record, exec: &ExecId, at: Timestamp) {
        self.scribe.tell(event::exec_started(record, exec, at));
    }

    /// Tells that an exec has ended, if it has.
    pub(crate) fn tell_ended(&self, record: &Record, exec: &ExecId, state: &ExecState) {
        if let Some(ended) = self.end_of(record, exec, state) {
            self.scribe.tell(ended);
        }
    }

    /// Returns what to tell of the end of an exec; nothing while it runs.
    pub(crate) fn end_of(&self, record: &Record, exec: &ExecId, state: &ExecState) -> Option<Event> {
        state.ending?;
        let Progress { outcome, duration_ms, limits_hit, .. } = Progress::of(state);
        let end = End { outcome: outcome?, duration_ms: Some(duration_ms), limits_hit };
        Some(event::exec_ended(record, exec, ended_at(self.parts.clock.now(), state), &end))
    }

    /// Tells of many at once.
    pub(crate) fn tell_all(&self, events: Vec<Event>) {
        events.into_iter().for_each(|event| self.scribe.tell(event));
    }
}

/// Returns when an exec ended, as far as its guest says: somebody may ask about one that ended long ago.
fn ended_at(now: Timestamp, state: &ExecState) -> Timestamp {
    let ago = state.age_ms.map_or(0, |age| age.saturating_sub(state.duration_ms));
    Timestamp::from_millis(now.as_millis().saturating_sub(ago))
}
