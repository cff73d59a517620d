//! The daemon's timers: replacing killed keepers, sweeping, and forgetting answers past their retention.

use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::sweep;
use coracle_service::Service;

/// How long a sandbox may be without its keeper; one that a caller waits for gets a new keeper at once.
const KEEPERS_EVERY: Duration = Duration::from_secs(2);

/// The thread of the timers. Dropping this ends it and waits for its current task.
#[derive(Debug)]
pub struct Timers {
    end: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// Starts the thread.
pub fn start(service: &Service) -> Timers {
    let (end, ended) = mpsc::channel();
    let service = service.clone();
    let thread = std::thread::spawn(move || {
        let (mut swept, mut collected) = (Instant::now(), Instant::now());
        while ended.recv_timeout(KEEPERS_EVERY) == Err(RecvTimeoutError::Timeout) {
            if swept.elapsed() < sweep::EVERY {
                // The next sweep reports what does not work.
                drop(service.engine().egress().replace_keepers());
                continue;
            }
            swept = Instant::now();
            sweep::now(service.engine());
            // A failure is retried a minute later.
            let _ = service.forget_answers();
            if collected.elapsed() >= sweep::LAYERS_EVERY {
                collected = Instant::now();
                sweep::layers(service.engine());
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
