//! Writes down events behind the back of whoever runs commands: start and end are two commits, about 80 µs together, and
//! now and then a sync of the disk.
//!
//! Many are written in one transaction. Whoever reads events, or changes a record, waits until everything that was told
//! before is written, so that nobody sees an end behind the end of its sandbox. What a killed process had not written
//! yet is told by the next who sees it.

use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use coracle_core::Store;
use coracle_core::event::Event;

use crate::watch::Lookout;

/// How many may wait. Whoever tells more waits with them: the disk is slower than the commands.
const WAITING_MAX: usize = 1024;

/// Writes events of one engine, on a thread that is started with the first.
pub(crate) struct Scribe {
    desk: Arc<Desk>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

struct Desk {
    store: Arc<dyn Store>,
    lookout: Arc<Lookout>,
    pile: Mutex<Pile>,
    /// Rung when there is something to write, or nothing any more.
    bell: Condvar,
}

#[derive(Default)]
struct Pile {
    events: Vec<Event>,
    /// Taken from the pile and not in the store yet.
    writing: bool,
    ending: bool,
}

impl fmt::Debug for Scribe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scribe").finish_non_exhaustive()
    }
}

impl Scribe {
    pub fn new(store: Arc<dyn Store>, lookout: Arc<Lookout>) -> Self {
        let desk = Arc::new(Desk { store, lookout, pile: Mutex::default(), bell: Condvar::new() });
        Self { desk, thread: Mutex::default() }
    }

    /// Has an event written soon.
    pub fn tell(&self, event: Event) {
        if !self.is_at_work() {
            self.desk.write(&[event]);
            return;
        }
        let mut pile = self.desk.pile();
        while pile.events.len() >= WAITING_MAX {
            pile = self.desk.wait(pile);
        }
        pile.events.push(event);
        drop(pile);
        self.desk.bell.notify_all();
    }

    /// Writes events behind what was told before, and returns when they are there.
    pub fn tell_now(&self, events: &[Event]) {
        self.finish();
        self.desk.write(events);
    }

    /// Returns when everything is written that was told before.
    pub fn finish(&self) {
        let mut pile = self.desk.pile();
        while pile.writing || !pile.events.is_empty() {
            pile = self.desk.wait(pile);
        }
    }

    /// Tells whether there is a thread, starting it if there is none; without one events are written where they are told.
    fn is_at_work(&self) -> bool {
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        if thread.is_none() {
            let desk = self.desk.clone();
            *thread = std::thread::Builder::new().name("scribe".to_owned()).spawn(move || desk.work()).ok();
        }
        thread.is_some()
    }
}

impl Desk {
    fn work(&self) {
        let mut pile = self.pile();
        loop {
            if !pile.events.is_empty() {
                let events = std::mem::take(&mut pile.events);
                pile.writing = true;
                drop(pile);
                self.write(&events);
                pile = self.pile();
                pile.writing = false;
                self.bell.notify_all();
            } else if pile.ending {
                return;
            } else {
                pile = self.wait(pile);
            }
        }
    }

    /// A home that cannot be written to loses events, never commands.
    fn write(&self, events: &[Event]) {
        let _ = self.store.tell(events);
        self.lookout.ring();
    }

    fn pile(&self) -> MutexGuard<'_, Pile> {
        self.pile.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, pile: MutexGuard<'a, Pile>) -> MutexGuard<'a, Pile> {
        self.bell.wait(pile).unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Scribe {
    fn drop(&mut self) {
        self.desk.pile().ending = true;
        self.desk.bell.notify_all();
        let thread = self.thread.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        // A panic of its own is nobody's here.
        let _ = thread.map(JoinHandle::join);
    }
}
