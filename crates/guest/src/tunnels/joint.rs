//! Joins two connections: bytes from one go to the other, each way at the reader's pace.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use coracle_sys::rustix;
use coracle_sys::rustix::io::Errno;
use coracle_sys::rustix::net::{Shutdown, shutdown};

/// Bytes read at once, and the most kept for a side that does not read: twice this for each connection.
pub const PIECE: usize = 16 << 10;
/// Pieces one joint carries before it is another's turn.
const PIECES: usize = 16;

/// A command's connection and the host's.
#[derive(Debug)]
pub struct Joint {
    command: OwnedFd,
    host: OwnedFd,
    outward: Way,
    inward: Way,
    /// The epoch that the joint ends with. A joint of the sandbox's own network has none.
    pub epoch: Option<u64>,
}

/// The result of carrying a joint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stride {
    /// There is nothing to carry until an event comes.
    Waits,
    More,
    Over,
}

/// One direction.
#[derive(Debug, Default)]
struct Way {
    /// Bytes read but not yet written. Holds memory only meanwhile.
    pending: Vec<u8>,
    ended: bool,
    /// Bytes read so far.
    carried: u64,
    /// The end of the stream was passed on.
    closed: bool,
}

impl Joint {
    /// Joins the two; `rest` has already come from the host.
    pub fn new(command: OwnedFd, host: OwnedFd, epoch: Option<u64>, rest: Vec<u8>) -> io::Result<Self> {
        for end in [&command, &host] {
            rustix::io::ioctl_fionbio(end, true)?;
        }
        let _ = rustix::net::sockopt::set_tcp_nodelay(&command, true);
        let inward = Way { pending: rest, ..Way::default() };
        Ok(Self { command, host, outward: Way::default(), inward, epoch })
    }

    pub fn ends(&self) -> [BorrowedFd<'_>; 2] {
        [self.command.as_fd(), self.host.as_fd()]
    }

    /// Returns how many bytes have come from either side.
    pub fn carried(&self) -> u64 {
        self.outward.carried + self.inward.carried
    }

    /// Carries the available bytes, both ways.
    pub fn carry(&mut self, scratch: &mut [u8]) -> Stride {
        let outward = self.outward.carry(self.command.as_fd(), self.host.as_fd(), scratch);
        let inward = self.inward.carry(self.host.as_fd(), self.command.as_fd(), scratch);
        match (outward, inward) {
            (Ok(_), Ok(_)) if self.outward.closed && self.inward.closed => Stride::Over,
            (Ok(false), Ok(false)) => Stride::Waits,
            (Ok(_), Ok(_)) => Stride::More,
            (Err(_), _) | (_, Err(_)) => Stride::Over,
        }
    }
}

impl Way {
    /// Returns whether it stopped so that others have their turn.
    fn carry(&mut self, from: BorrowedFd<'_>, to: BorrowedFd<'_>, scratch: &mut [u8]) -> Result<bool, Errno> {
        for _ in 0..PIECES {
            if !self.flush(to)? || self.closed {
                return Ok(false);
            }
            if self.ended {
                shutdown(to, Shutdown::Write)?;
                self.closed = true;
                return Ok(false);
            }
            let read = match rustix::io::read(from, &mut *scratch) {
                Err(Errno::AGAIN) => return Ok(false),
                Err(Errno::INTR) => continue,
                read => read?,
            };
            self.ended = read == 0;
            self.carried += read as u64;
            let written = match read {
                0 => 0,
                _ => write(to, &scratch[..read])?,
            };
            self.pending.extend_from_slice(&scratch[written..read]);
        }
        Ok(true)
    }

    /// Writes the pending bytes. Returns whether all are written.
    fn flush(&mut self, to: BorrowedFd<'_>) -> Result<bool, Errno> {
        // Write until the kernel accepts no more: only then will epoll report the socket again.
        while !self.pending.is_empty() {
            match write(to, &self.pending)? {
                0 => return Ok(false),
                written => drop(self.pending.drain(..written)),
            }
        }
        self.pending = Vec::new();
        Ok(true)
    }
}

/// Writes as much as the kernel accepts now.
fn write(to: BorrowedFd<'_>, data: &[u8]) -> Result<usize, Errno> {
    loop {
        match rustix::io::write(to, data) {
            Err(Errno::AGAIN) => return Ok(0),
            Err(Errno::INTR) => {}
            written => return written,
        }
    }
}
