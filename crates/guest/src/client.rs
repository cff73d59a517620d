//! The client of a connection. A thread that waits for an exec ends the wait when its client has gone: the connection
//! would otherwise keep its place until the wait is over.

use std::os::unix::net::UnixStream;

use coracle_sys::rustix::event::{PollFd, PollFlags, Timespec, poll};

/// A client that waits for an answer.
#[derive(Debug, Clone, Copy)]
pub struct Client<'a>(&'a UnixStream);

impl<'a> Client<'a> {
    /// The reactor must watch the connection for its end by now, or the wait does not notice it.
    pub fn watched(stream: &'a UnixStream) -> Self {
        Self(stream)
    }

    pub fn has_gone(self) -> bool {
        has_ended(self.0)
    }
}

/// Tells whether the other side has closed a connection, or sends no more.
pub fn has_ended(stream: &UnixStream) -> bool {
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut [PollFd::new(stream, PollFlags::RDHUP)], Some(&at_once)).is_ok_and(|ready| ready > 0)
}
