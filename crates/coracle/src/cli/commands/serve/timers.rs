//! What the daemon does by the clock: the janitor's visits, and forgetting answers that were kept long enough.

use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::cli::sweep;
use crate::http::Door;

/// What dead processes leave behind is neither dangerous nor in the way; a minute is soon enough.
const SWEEP_EVERY: Duration = Duration::from_secs(60);
/// Layers nobody uses cost only space, and looking for them costs time.
const COLLECT_EVERY: Duration = Duration::from_secs(3600);

/// The thread that looks at the clock. Dropping this ends it and waits for what it is at.
#[derive(Debug)]
pub struct Timers {
    end: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// Starts it.
pub fn start(door: &Door) -> Timers {
    let (end, ended) = mpsc::channel();
    let door = door.clone();
    let thread = std::thread::spawn(move || {
        let mut collected = Instant::now();
        while ended.recv_timeout(SWEEP_EVERY) == Err(RecvTimeoutError::Timeout) {
            sweep::now(door.engine());
            // What could not be forgotten now is so a minute later.
            let _ = door.forget_answers();
            if collected.elapsed() >= COLLECT_EVERY {
                collected = Instant::now();
                sweep::layers(door.engine());
            }
        }
    });
    Timers { end: Some(end), thread: Some(thread) }
}

impl Drop for Timers {
    fn drop(&mut self) {
        drop(self.end.take());
        let _ = self.thread.take().map(JoinHandle::join);
    }
}
