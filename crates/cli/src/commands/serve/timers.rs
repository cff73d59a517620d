//! What the daemon does by the clock: replacing keepers that were killed, the janitor's visits, and forgetting answers
//! that were kept long enough.

use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::sweep;
use coracle_service::Service;

/// How long a sandbox may be without the keeper of its network; those a caller waits for are replaced at once.
const KEEPERS_EVERY: Duration = Duration::from_secs(2);

/// The thread that looks at the clock. Dropping this ends it and waits for what it is at.
#[derive(Debug)]
pub struct Timers {
    end: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// Starts it.
pub fn start(service: &Service) -> Timers {
    let (end, ended) = mpsc::channel();
    let service = service.clone();
    let thread = std::thread::spawn(move || {
        let (mut swept, mut collected) = (Instant::now(), Instant::now());
        while ended.recv_timeout(KEEPERS_EVERY) == Err(RecvTimeoutError::Timeout) {
            if swept.elapsed() < sweep::EVERY {
                // What does not work is said with the next sweep.
                drop(service.engine().replace_keepers());
                continue;
            }
            swept = Instant::now();
            sweep::now(service.engine());
            // What could not be forgotten now is so a minute later.
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
