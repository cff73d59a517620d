//! The events of the store in memory.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::clock::Timestamp;
use crate::event::{self, End, Event, Filter, Kind, Numbered, Page};
use crate::record::Record;

/// A strict log: it panics when an exec is said to end that nobody has said to start.
#[derive(Debug, Default)]
pub(super) struct Events(Mutex<Told>);

#[derive(Debug, Default)]
struct Told {
    kept: Vec<Numbered>,
    newest: u64,
}

impl Events {
    /// Tells what a change of a record means.
    pub(super) fn changed(&self, before: Option<&Record>, after: &Record) {
        let mut told = self.lock();
        if before.is_some_and(|before| event::ends_execs(before, after)) {
            told.end_execs(after);
        }
        event::between(before, after).into_iter().for_each(|event| told.push(event));
    }

    pub(super) fn append(&self, events: &[Event]) {
        let mut told = self.lock();
        for event in events {
            assert!(event.exec_id.is_some(), "a change of a record was told by somebody else: {event:?}");
            told.push_once(event.clone());
        }
    }

    pub(super) fn page(&self, since: u64, filter: &Filter, max: usize) -> Page {
        let told = self.lock();
        let wanted =
            told.kept.iter().filter(|numbered| numbered.seq > since && filter.admits(&numbered.event));
        let mut events: Vec<_> = wanted.take(max + 1).cloned().collect();
        let more = events.len() > max;
        events.truncate(max);
        let last = events.last().map_or(since, |numbered| numbered.seq);
        Page { next: if more { last } else { told.newest.max(since) }, forgotten: told.forgotten(), events }
    }

    pub(super) fn newest(&self) -> u64 {
        self.lock().newest
    }

    pub(super) fn forget(&self, before: Timestamp, keep: u64) -> u64 {
        let mut told = self.lock();
        let young = told.kept.iter().position(|numbered| numbered.event.at >= before);
        let by_age = young.unwrap_or(told.kept.len().saturating_sub(1));
        let by_count = told.kept.len().saturating_sub(usize::try_from(keep.max(1)).unwrap_or(usize::MAX));
        let gone = by_age.max(by_count);
        told.kept.drain(..gone);
        gone as u64
    }

    fn lock(&self) -> MutexGuard<'_, Told> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Told {
    fn push(&mut self, event: Event) {
        self.newest += 1;
        self.kept.push(Numbered { seq: self.newest, event });
    }

    fn push_once(&mut self, event: Event) {
        let same = |told: &Event, kind| {
            told.kind == kind && told.sandbox_id == event.sandbox_id && told.exec_id == event.exec_id
        };
        let has = |kind| self.kept.iter().any(|numbered| same(&numbered.event, kind));
        let forgotten =
            self.forgotten() > 0 && self.kept.first().is_some_and(|first| first.event.at > event.at);
        if has(event.kind) || forgotten {
            return;
        }
        let begun = event.kind != Kind::ExecEnded || has(Kind::ExecStarted) || self.forgotten() > 0;
        assert!(begun, "an exec ended that was never started: {event:?}");
        self.push(event);
    }

    fn end_execs(&mut self, record: &Record) {
        let of_kind = |kind| {
            let kept = self.kept.iter().map(|numbered| &numbered.event);
            kept.filter(move |event| event.kind == kind && event.sandbox_id == record.id)
                .filter_map(|event| event.exec_id.clone())
                .collect::<Vec<_>>()
        };
        let ended = of_kind(Kind::ExecEnded);
        for exec in of_kind(Kind::ExecStarted).into_iter().filter(|exec| !ended.contains(exec)) {
            self.push(event::exec_ended(record, &exec, record.updated_at, &End::UNSEEN));
        }
    }

    fn forgotten(&self) -> u64 {
        self.kept.first().map_or(0, |first| first.seq - 1)
    }
}
