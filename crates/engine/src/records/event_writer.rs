//! Writes exec events on a background thread, so that commands do not wait for commits: the start and end of a command
//! are two commits, about 80 µs together, and now and then a sync of the disk.
//!
//! The thread writes many events in one transaction. Readers of events, and changes of a record, first wait until
//! everything told before is written: an exec's end is never behind the end of its sandbox. If the process is killed
//! first, the next call that sees the exec tells its events.

use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use coracle_core::Store;
use coracle_core::event::Event;

use super::watch::Lookout;

/// How many events may wait. Beyond that callers wait, too: the disk is slower than the commands.
const WAITING_MAX: usize = 1024;

/// Writes the events of one home. The first event starts the thread.
pub(super) struct EventWriter {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

struct Shared {
    store: Arc<dyn Store>,
    lookout: Arc<Lookout>,
    queue: Mutex<Queue>,
    /// Rung when there is something to write, and when all is written.
    bell: Condvar,
}

#[derive(Default)]
struct Queue {
    events: Vec<Event>,
    /// The thread has taken events from the queue and not stored them yet.
    writing: bool,
    ending: bool,
}

impl fmt::Debug for EventWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventWriter").finish_non_exhaustive()
    }
}

impl EventWriter {
    pub fn new(store: Arc<dyn Store>, lookout: Arc<Lookout>) -> Self {
        let shared = Arc::new(Shared { store, lookout, queue: Mutex::default(), bell: Condvar::new() });
        Self { shared, thread: Mutex::default() }
    }

    /// Queues an event.
    pub fn tell(&self, event: Event) {
        if !self.is_at_work() {
            self.shared.write(&[event]);
            return;
        }
        let mut queue = self.shared.queue();
        while queue.events.len() >= WAITING_MAX {
            queue = self.shared.wait(queue);
        }
        queue.events.push(event);
        drop(queue);
        self.shared.bell.notify_all();
    }

    /// Writes events behind the queued ones, and returns when they are stored.
    pub fn tell_now(&self, events: &[Event]) {
        self.finish();
        self.shared.write(events);
    }

    /// Waits until everything queued so far is stored.
    pub fn finish(&self) {
        let mut queue = self.shared.queue();
        while queue.writing || !queue.events.is_empty() {
            queue = self.shared.wait(queue);
        }
    }

    /// Starts the thread if there is none, and tells whether there is one. Without it, callers write their events themselves.
    fn is_at_work(&self) -> bool {
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        if thread.is_none() {
            let shared = self.shared.clone();
            *thread =
                std::thread::Builder::new().name("event-writer".to_owned()).spawn(move || shared.work()).ok();
        }
        thread.is_some()
    }
}

impl Shared {
    fn work(&self) {
        let mut queue = self.queue();
        loop {
            if !queue.events.is_empty() {
                let events = std::mem::take(&mut queue.events);
                queue.writing = true;
                drop(queue);
                self.write(&events);
                queue = self.queue();
                queue.writing = false;
                self.bell.notify_all();
            } else if queue.ending {
                return;
            } else {
                queue = self.wait(queue);
            }
        }
    }

    /// A home that cannot be written to loses events, never commands.
    fn write(&self, events: &[Event]) {
        let _ = self.store.tell(events);
        self.lookout.ring();
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, queue: MutexGuard<'a, Queue>) -> MutexGuard<'a, Queue> {
        self.bell.wait(queue).unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for EventWriter {
    fn drop(&mut self) {
        self.shared.queue().ending = true;
        self.shared.bell.notify_all();
        let thread = self.thread.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        // A panic of the thread is not passed on.
        let _ = thread.map(JoinHandle::join);
    }
}
