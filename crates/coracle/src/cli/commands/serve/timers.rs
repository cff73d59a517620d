//! What the daemon does by the clock: the janitor's visits, and forgetting answers that were kept long enough.

use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::Instant;

use crate::cli::sweep;
use crate::http::Door;

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
        while ended.recv_timeout(sweep::EVERY) == Err(RecvTimeoutError::Timeout) {
            sweep::now(door.engine());
            // What could not be forgotten now is so a minute later.
            let _ = door.forget_answers();
            if collected.elapsed() >= sweep::LAYERS_EVERY {
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
