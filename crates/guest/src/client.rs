//! The client of a connection. A thread that waits for an exec ends the wait when its client has gone: the connection
//! would otherwise keep its place until the wait is over.

use std::cell::Cell;
use std::os::fd::BorrowedFd;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use coracle_sys::rustix::event::{PollFd, PollFlags, Timespec, epoll, poll};

/// A wait that is over by then does not watch its client: most commands are short, and watching costs system calls.
const BRIEF: Duration = Duration::from_millis(50);

/// A client that waits for an answer.
#[derive(Debug)]
pub struct Client<'a> {
    stream: &'a UnixStream,
    /// What the main thread waits on, and the token by which it knows that a client has gone.
    events: BorrowedFd<'a>,
    token: u64,
    /// When the main thread begins to watch the connection.
    from: Instant,
    /// How many clients had gone at the last look at this one. Absent until the connection is watched.
    looked_at: Cell<Option<u64>>,
}

impl<'a> Client<'a> {
    pub fn new(stream: &'a UnixStream, events: BorrowedFd<'a>, token: u64) -> Self {
        Self { stream, events, token, from: Instant::now() + BRIEF, looked_at: Cell::new(None) }
    }

    /// Returns how long its thread may sleep: at most `left`, and not at all if the client has gone.
    ///
    /// Once the connection is watched, looks at it only if another client has gone since: the output of an exec wakes
    /// all threads that wait, and is no reason to.
    pub fn sleep_for(&self, left: Duration, departures: u64) -> Duration {
        let brief = self.from.saturating_duration_since(Instant::now());
        if !brief.is_zero() {
            return left.min(brief);
        }
        if self.looked_at.get().is_none() {
            let ends = epoll::EventFlags::RDHUP | epoll::EventFlags::ET;
            // If it cannot be watched, the wait takes its time. An end from before is noticed by the look below.
            let _ = epoll::add(self.events, self.stream, epoll::EventData::new_u64(self.token), ends);
        }
        let is_news = self.looked_at.replace(Some(departures)) != Some(departures);
        if is_news && self.has_gone() { Duration::ZERO } else { left }
    }

    pub fn has_gone(&self) -> bool {
        has_ended(self.stream)
    }
}

impl Drop for Client<'_> {
    fn drop(&mut self) {
        if self.looked_at.get().is_some() {
            let _ = epoll::delete(self.events, self.stream);
        }
    }
}

/// Tells whether the other side has closed a connection, or sends no more.
pub fn has_ended(stream: &UnixStream) -> bool {
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut [PollFd::new(stream, PollFlags::RDHUP)], Some(&at_once)).is_ok_and(|ready| ready > 0)
}
