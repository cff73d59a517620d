//! Carries bytes between a client in the sandbox and a server outside, both ways, at the reader's pace.
//!
//! The way inward is open at once, because some servers speak first. The way outward lets through only what the
//! proxy could judge.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixStream;

use rustix::event::{PollFd, PollFlags, poll};

use crate::body::Measure;
use crate::pace::Pace;

/// Bytes read at once, and the most kept for a side that does not read.
const PIECE: usize = 16 << 10;
/// How a server's answer begins when it switches to another protocol; the minor version is at the `x`.
const SWITCHED: &[u8; 12] = b"HTTP/1.x 101";

/// The two ends.
#[derive(Debug, Clone, Copy)]
pub struct Ends<'a> {
    pub client: &'a UnixStream,
    pub server: &'a TcpStream,
    pub pace: &'a Pace,
}

/// Which of the client's bytes go out.
#[derive(Debug)]
pub enum Outward {
    Everything,
    /// The body of one request and nothing after it.
    Request(Measure),
    /// Nothing after the request, unless the server agrees to switch to another protocol.
    Upgrade(Measure, Vec<u8>),
}

/// One direction.
#[derive(Debug, Default)]
struct Way {
    pending: Vec<u8>,
    ended: bool,
    closed: bool,
}

/// Carries until both directions have ended, or one broke. Sends `first` before it reads anything.
pub fn carry(ends: Ends<'_>, first: Vec<u8>, mut outward: Outward, seen: &[u8]) -> io::Result<()> {
    ends.client.set_nonblocking(true)?;
    ends.server.set_nonblocking(true)?;
    let mut out = Way { pending: first, ..Way::default() };
    let mut inward = Way::default();
    out.push(&mut outward, seen)?;
    let mut scratch = vec![0; PIECE];
    while !(out.closed && inward.closed) {
        let ready = wait(ends, &out, &inward, &outward)?;
        if ready.client_gone {
            return Ok(());
        }
        if ready.client_reads && !inward.pending.is_empty() {
            flush(&mut inward.pending, ends.client)?;
        }
        if ready.server_reads && !out.pending.is_empty() {
            flush(&mut out.pending, ends.server)?;
        }
        if ready.server_speaks
            && let Some(read) = read(ends.server, &mut scratch)?
        {
            ends.pace.spend(read);
            outward.hear(&scratch[..read]);
            inward.ended = read == 0;
            inward.pending.extend_from_slice(&scratch[..read]);
            flush(&mut inward.pending, ends.client)?;
        }
        if ready.client_speaks
            && let Some(read) = read(ends.client, &mut scratch)?
        {
            ends.pace.spend(read);
            out.ended = read == 0;
            out.push(&mut outward, &scratch[..read])?;
            flush(&mut out.pending, ends.server)?;
        }
        if out.ended && out.pending.is_empty() && !out.closed {
            let _ = ends.server.shutdown(Shutdown::Write);
            out.closed = true;
        }
        if inward.ended && inward.pending.is_empty() && !inward.closed {
            let _ = ends.client.shutdown(Shutdown::Write);
            inward.closed = true;
        }
        // A server that has answered one request has nothing more to say.
        if inward.closed && !matches!(outward, Outward::Everything) {
            return Ok(());
        }
    }
    Ok(())
}

impl Way {
    /// Queues those of the client's bytes that may go out.
    fn push(&mut self, outward: &mut Outward, bytes: &[u8]) -> io::Result<()> {
        let taken = match outward {
            Outward::Everything => bytes.len(),
            Outward::Request(measure) | Outward::Upgrade(measure, _) => {
                measure.take(bytes).map_err(io::Error::other)?
            }
        };
        self.pending.extend_from_slice(&bytes[..taken]);
        Ok(())
    }
}

impl Outward {
    /// Tells whether the proxy wants more of the client's bytes now.
    fn is_wanted(&self) -> bool {
        match self {
            Self::Everything => true,
            Self::Request(measure) | Self::Upgrade(measure, _) => !measure.is_done(),
        }
    }

    /// Checks at the beginning of the answer whether the server switches to another protocol.
    fn hear(&mut self, bytes: &[u8]) {
        let Self::Upgrade(measure, heard) = self else { return };
        heard.extend(bytes.iter().take(SWITCHED.len() - heard.len().min(SWITCHED.len())));
        if heard.len() < SWITCHED.len() {
            return;
        }
        let same = |(index, (one, other)): (usize, (&u8, &u8))| one == other || index == 7;
        let switched = heard.iter().zip(SWITCHED).enumerate().all(same) && measure.is_done();
        match switched {
            true => *self = Self::Everything,
            false => *self = Self::Request(std::mem::replace(measure, Measure::done())),
        }
    }
}

/// Which side can be read from, and which can be written to.
struct Ready {
    client_speaks: bool,
    client_reads: bool,
    client_gone: bool,
    server_speaks: bool,
    server_reads: bool,
}

/// Waits for something to do. Watches a side that is not needed now only for its end.
fn wait(ends: Ends<'_>, out: &Way, inward: &Way, outward: &Outward) -> io::Result<Ready> {
    let interest = |speaks: bool, reads: bool| {
        let speaks = if speaks { PollFlags::IN } else { PollFlags::empty() };
        let reads = if reads { PollFlags::OUT } else { PollFlags::empty() };
        speaks | reads
    };
    let client =
        interest(!out.ended && out.pending.is_empty() && outward.is_wanted(), !inward.pending.is_empty());
    let server = interest(!inward.ended && inward.pending.is_empty(), !out.pending.is_empty());
    let mut watched = vec![PollFd::new(ends.client, client)];
    if !server.is_empty() {
        watched.push(PollFd::new(ends.server, server));
    }
    match poll(&mut watched, None) {
        Ok(_) | Err(rustix::io::Errno::INTR) => {}
        Err(error) => return Err(error.into()),
    }
    let over = PollFlags::HUP | PollFlags::ERR;
    let client_now = watched[0].revents();
    let server_now = watched.get(1).map_or(PollFlags::empty(), PollFd::revents);
    let asked = |asked: PollFlags, flag, now: PollFlags| asked.contains(flag) && now.intersects(flag | over);
    Ok(Ready {
        client_speaks: asked(client, PollFlags::IN, client_now),
        client_reads: asked(client, PollFlags::OUT, client_now),
        client_gone: client_now.intersects(over) && !client.contains(PollFlags::IN),
        server_speaks: asked(server, PollFlags::IN, server_now),
        server_reads: asked(server, PollFlags::OUT, server_now),
    })
}

/// Returns how much was read: 0 at the end, `None` if there is nothing yet.
fn read(mut from: impl Read, scratch: &mut [u8]) -> io::Result<Option<usize>> {
    match from.read(scratch) {
        Err(error) if is_nothing(&error) => Ok(None),
        read => read.map(Some),
    }
}

/// Writes as much as the kernel accepts now.
fn flush(pending: &mut Vec<u8>, mut to: impl Write) -> io::Result<()> {
    if pending.is_empty() {
        return Ok(());
    }
    match to.write(pending) {
        Err(error) if is_nothing(&error) => Ok(()),
        written => {
            pending.drain(..written?);
            Ok(())
        }
    }
}

fn is_nothing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}
