//! Reading events as they come, whichever process they happen in.
//!
//! The store is asked for the number of its newest event every few hundredths of a second, by one watcher for all of a
//! process; the others look at what it found. What this process does itself rings a bell.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use coracle_core::event::{Filter, Page};
use coracle_core::{Cancel, Result};

use super::Records;

/// How late an event of another process may be seen.
const LOOK: Duration = Duration::from_millis(50);
/// The most events in one batch: what a reply can hold with room to spare.
pub const BATCH_MAX: usize = 1000;

/// The number of the newest event, as seen last.
#[derive(Debug, Default)]
pub(super) struct Lookout {
    seen: Mutex<Seen>,
    bell: Condvar,
}

#[derive(Debug, Default)]
struct Seen {
    newest: u64,
    at: Option<Instant>,
}

impl Lookout {
    /// Says that something may have happened.
    pub(super) fn ring(&self) {
        self.lock().at = None;
        self.bell.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Follows events from a number on. Dropping it has no effect on others.
#[derive(Debug)]
pub struct Watch {
    records: Arc<Records>,
    filter: Filter,
    since: u64,
}

impl Records {
    /// Starts reading events behind the number `since` that a filter admits.
    pub(crate) fn watch(self: &Arc<Self>, since: u64, filter: Filter) -> Watch {
        Watch { records: self.clone(), filter, since }
    }

    /// Returns the number of the newest event there is, for readers that want only what comes.
    pub fn newest_event(&self) -> Result<u64> {
        self.event_writer.finish();
        self.store.newest_event()
    }

    /// Waits until there is an event behind `since`, the time is up, or none is wanted any more; tells whether there is one.
    fn await_event(&self, since: u64, timeout: Duration, wanted: &Wanted) -> Result<bool> {
        let began = Instant::now();
        let mut seen = self.lookout.lock();
        loop {
            if seen.at.is_none_or(|at| at.elapsed() >= LOOK) {
                seen.newest = self.store.newest_event()?;
                seen.at = Some(Instant::now());
            }
            if seen.newest > since {
                return Ok(true);
            }
            let left = timeout.saturating_sub(began.elapsed());
            if left.is_zero() || !wanted.is_so() {
                return Ok(false);
            }
            let pause = left.min(LOOK);
            seen = self.lookout.bell.wait_timeout(seen, pause).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// The reader of events. When it is dropped, a waiting ends soon.
#[derive(Debug)]
pub struct Reading {
    _alive: Arc<()>,
}

/// For how long events are waited for.
#[derive(Debug)]
pub enum Wanted {
    Always,
    /// While the reader is there.
    By(Weak<()>),
    /// Until the call is cancelled.
    Until(Cancel),
}

impl Wanted {
    fn is_so(&self) -> bool {
        match self {
            Self::Always => true,
            Self::By(reading) => reading.strong_count() > 0,
            Self::Until(cancel) => !cancel.is_cancelled(),
        }
    }
}

impl Watch {
    /// Returns what a waiting on another thread is bound to, and how that thread knows it.
    pub fn bound(&self) -> (Reading, Wanted) {
        let alive = Arc::new(());
        let wanted = Wanted::By(Arc::downgrade(&alive));
        (Reading { _alive: alive }, wanted)
    }

    /// Like [`Watch::next_few`], for as long as events are wanted: with an empty batch otherwise.
    pub fn next_few_while(&mut self, max: usize, wanted: &Wanted, timeout: Duration) -> Result<Page> {
        self.next(max, timeout, wanted)
    }

    /// Returns the next events, waiting up to `timeout` for the first. An empty batch says that there were none.
    ///
    /// `forgotten` above [`Watch::seq`] as it was before means that some are missing: the reader was too late.
    pub fn next_batch(&mut self, timeout: Duration) -> Result<Page> {
        self.next_few(BATCH_MAX, timeout)
    }

    /// Like [`Watch::next_batch`], with at most `max` events.
    pub fn next_few(&mut self, max: usize, timeout: Duration) -> Result<Page> {
        self.next(max, timeout, &Wanted::Always)
    }

    fn next(&mut self, max: usize, timeout: Duration, wanted: &Wanted) -> Result<Page> {
        let began = Instant::now();
        loop {
            self.records.event_writer.finish();
            let page = self.records.store.events(self.since, &self.filter, max)?;
            let missed = page.forgotten > self.since;
            self.since = page.next;
            let left = timeout.saturating_sub(began.elapsed());
            if !page.events.is_empty() || missed || !self.records.await_event(self.since, left, wanted)? {
                return Ok(page);
            }
        }
    }

    /// Returns the number everything was read up to: where another watch goes on.
    pub fn seq(&self) -> u64 {
        self.since
    }
}
