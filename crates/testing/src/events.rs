//! The events of the store in memory.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use coracle_core::clock::Timestamp;
use coracle_core::event::{self, End, Event, Filter, Kind, Numbered, Page};
use coracle_core::ids::TenantId;
use coracle_core::record::Record;

/// A strict log: it panics when an exec ends that never started.
#[derive(Debug, Default)]
pub(super) struct Events(Mutex<EventLog>);

#[derive(Debug, Default)]
struct EventLog {
    kept: Vec<Numbered>,
    newest: u64,
    /// Up to where the events of each owner are forgotten.
    forgotten: BTreeMap<Option<TenantId>, Forgotten>,
}

#[derive(Debug)]
struct Forgotten {
    seq: u64,
    /// Ends from before this time were reported already.
    until: Timestamp,
}

impl Events {
    /// Appends the events of a change of a record.
    pub(super) fn changed(&self, before: Option<&Record>, after: &Record) {
        let mut log = self.lock();
        if before.is_some_and(|before| event::ends_execs(before, after)) {
            log.end_execs(after);
        }
        event::between(before, after).into_iter().for_each(|event| log.push(event));
    }

    pub(super) fn append(&self, events: &[Event]) {
        let mut log = self.lock();
        for event in events {
            if event.sandbox_id.is_none() {
                log.push(event.clone());
                continue;
            }
            assert!(event.exec_id.is_some(), "a caller reported a change of a record: {event:?}");
            log.push_once(event.clone());
        }
    }

    pub(super) fn page(&self, since: u64, filter: &Filter, max: usize) -> Page {
        let log = self.lock();
        let wanted =
            log.kept.iter().filter(|numbered| numbered.seq > since && filter.admits(&numbered.event));
        let mut events: Vec<_> = wanted.take(max + 1).cloned().collect();
        let more = events.len() > max;
        events.truncate(max);
        let last = events.last().map_or(since, |numbered| numbered.seq);
        let next = if more { last } else { log.newest.max(since) };
        Page { next, forgotten: log.forgotten_for(filter).min(next), events }
    }

    pub(super) fn newest(&self) -> u64 {
        self.lock().newest
    }

    pub(super) fn forget(&self, before: Timestamp, keep: u64) -> u64 {
        let mut log = self.lock();
        let young = log.kept.iter().position(|numbered| numbered.event.observed >= before);
        let by_age = young.unwrap_or(log.kept.len().saturating_sub(1));
        let count = log.kept.len();
        log.forget(by_age, before, keep);
        (count - log.kept.len()) as u64
    }

    fn lock(&self) -> MutexGuard<'_, EventLog> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl EventLog {
    fn push(&mut self, event: Event) {
        self.newest += 1;
        self.kept.push(Numbered { seq: self.newest, event });
    }

    fn push_once(&mut self, event: Event) {
        let same = |other: &Event, kind| {
            other.kind == kind && other.sandbox_id == event.sandbox_id && other.exec_id == event.exec_id
        };
        let has = |kind| self.kept.iter().any(|numbered| same(&numbered.event, kind));
        let forgotten = self.forgotten.get(&event.tenant);
        if has(event.kind) || forgotten.is_some_and(|forgotten| forgotten.until > event.observed) {
            return;
        }
        let begun = event.kind != Kind::ExecEnded || has(Kind::ExecStarted) || forgotten.is_some();
        assert!(begun, "an exec ended that was never started: {event:?}");
        self.push(event);
    }

    fn end_execs(&mut self, record: &Record) {
        let of_kind = |kind| {
            let kept = self.kept.iter().map(|numbered| &numbered.event);
            kept.filter(move |event| event.kind == kind && event.sandbox_id.as_ref() == Some(&record.id))
                .filter_map(|event| event.exec_id.clone())
                .collect::<Vec<_>>()
        };
        let ended = of_kind(Kind::ExecEnded);
        for exec in of_kind(Kind::ExecStarted).into_iter().filter(|exec| !ended.contains(exec)) {
            self.push(event::exec_ended(record, &exec, record.moment(), &End::UNSEEN));
        }
    }

    /// Forgets all events before `place`, and more of the owners with the most.
    fn forget(&mut self, place: usize, before: Timestamp, keep: u64) {
        let gone = self.surplus(place, keep);
        let newest = self.newest;
        let goes = |one: &mut Numbered| one.seq != newest && gone.contains(&one.seq);
        let forgotten: Vec<_> = self.kept.extract_if(.., goes).collect();
        for Numbered { seq, event } in forgotten {
            let oldest = self.kept.iter().find(|one| one.event.tenant == event.tenant);
            let until = oldest.map_or(before, |oldest| oldest.event.observed);
            self.forgotten.insert(event.tenant, Forgotten { seq, until });
        }
    }

    /// Returns the numbers of all events before `place`, and of more of the owners with the most.
    fn surplus(&self, place: usize, keep: u64) -> Vec<u64> {
        let (old, young) = self.kept.split_at(place);
        let mut counts: BTreeMap<_, u64> = BTreeMap::new();
        young.iter().for_each(|one| *counts.entry(&one.event.tenant).or_default() += 1);
        let share = event::share(counts.values().copied().collect(), keep);
        let excess = young.iter().filter(|one| {
            let left = counts.entry(&one.event.tenant).or_default();
            let goes = *left > share;
            *left -= u64::from(goes);
            goes
        });
        old.iter().chain(excess).map(|one| one.seq).collect()
    }

    fn forgotten_for(&self, filter: &Filter) -> u64 {
        let of = |(owner, _): &(&Option<TenantId>, _)| filter.tenant.is_none() || **owner == filter.tenant;
        self.forgotten.iter().filter(of).map(|(_, forgotten)| forgotten.seq).max().unwrap_or(0)
    }
}
