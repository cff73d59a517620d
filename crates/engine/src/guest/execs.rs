//! Commands in a sandbox: start, output, end.

use std::time::Duration;

use coracle_wire::{Body, Chunk, Command, ExecState, ExecSummary, Reply, Terminal};

use super::{Failure, Guest};

/// The longest single wait asked of a guest. Longer ones are made of several, so that a guest that hangs is noticed.
pub const WAIT_SLICE: Duration = Duration::from_secs(20);
/// How long is waited for what has no deadline.
pub const FOR_EVER: Duration = Duration::from_secs(10 * 365 * 24 * 3600);
/// More is hardly meant as a grace between TERM and KILL.
pub const GRACE_MAX: Duration = Duration::from_secs(600);
/// The most data put into one frame, with room for what stands around it.
pub(super) const PIECE_LEN: usize = 1 << 20;
/// No bound of its own: the frame is the bound.
pub const ALL_CHUNKS: u32 = u32::MAX;

impl Guest {
    /// Starts a command; tells whether it had been started before under this id.
    pub fn start(&mut self, exec: &str, command: Command) -> Result<bool, Failure> {
        let reply = self.ask(Body::Start { exec: exec.to_owned(), command }, Duration::ZERO)?;
        existing(&reply)
    }

    /// Starts a command and attends it, in one round trip; tells whether it had been started before under this id.
    pub fn start_attended(&mut self, exec: &str, command: Command) -> Result<bool, Failure> {
        self.queue(Body::Start { exec: exec.to_owned(), command })?;
        self.queue(Body::Attend { exec: exec.to_owned(), since: 0 })?;
        self.flush()?;
        let started = self.answer(Duration::ZERO).and_then(|reply| existing(&reply));
        let attended = match &started {
            // It broke off: nothing more comes.
            Err(failure) if !matches!(failure, Failure::Fault(_)) => return started,
            _ => self.answer(Duration::ZERO).and_then(|reply| done(&reply)),
        };
        started.and_then(|existing| attended.map(|()| existing))
    }

    /// Attends an exec from this connection: what was not read from here yet waits instead of being dropped.
    pub fn attend(&mut self, exec: &str, since: u64) -> Result<(), Failure> {
        done(&self.ask(Body::Attend { exec: exec.to_owned(), since }, Duration::ZERO)?)
    }

    /// Returns chunks after `since`, waiting up to `wait` until there is one or the end.
    pub fn read(
        &mut self,
        exec: &str,
        since: u64,
        max_chunks: u32,
        wait: Duration,
    ) -> Result<(Vec<Chunk>, ExecState), Failure> {
        let wait = wait.min(WAIT_SLICE);
        let body = Body::Read { exec: exec.to_owned(), since, max_chunks, wait_ms: millis(wait) };
        match self.ask(body, wait)? {
            Reply::Output { chunks, state } => Ok((chunks, state)),
            _ => Err(Failure::Unexpected),
        }
    }

    /// Returns what is known of the exec, waiting up to `wait` for its end.
    pub fn wait(&mut self, exec: &str, wait: Duration) -> Result<ExecState, Failure> {
        let wait = wait.min(WAIT_SLICE);
        let reply = self.ask(Body::Wait { exec: exec.to_owned(), wait_ms: millis(wait) }, wait)?;
        state(reply)
    }

    /// Ends the exec and its whole tree.
    pub fn stop(&mut self, exec: &str, grace: Option<Duration>) -> Result<ExecState, Failure> {
        let body = Body::Stop { exec: exec.to_owned(), grace_ms: grace.map(millis) };
        // Without one of its own it has the grace it was started with, which only the guest knows.
        let reply = self.ask(body, grace.unwrap_or(GRACE_MAX))?;
        state(reply)
    }

    /// Writes to standard input; returns when the command's pipe has taken all of it or `patience` is over.
    pub fn input(&mut self, exec: &str, data: &[u8], eof: bool, patience: Duration) -> Result<(), Failure> {
        let body = Body::Input { exec: exec.to_owned(), data: data.to_vec(), eof };
        done(&self.ask(body, patience)?)
    }

    /// Sends a signal to the command's process group.
    pub fn signal(&mut self, exec: &str, signal: i32) -> Result<(), Failure> {
        done(&self.ask(Body::Signal { exec: exec.to_owned(), signal }, Duration::ZERO)?)
    }

    /// Tells the command's terminal its size.
    pub fn resize(&mut self, exec: &str, size: Terminal) -> Result<(), Failure> {
        done(&self.ask(Body::Resize { exec: exec.to_owned(), size }, Duration::ZERO)?)
    }

    /// Returns every exec the guest remembers.
    pub fn execs(&mut self) -> Result<Vec<ExecSummary>, Failure> {
        match self.ask(Body::Execs {}, Duration::ZERO)? {
            Reply::Execs(execs) => Ok(execs),
            _ => Err(Failure::Unexpected),
        }
    }

    /// Writes all of standard input and closes it. A command that does not want it all is no failure.
    pub fn feed(&mut self, exec: &str, data: &[u8], patience: Duration) -> Result<(), Failure> {
        let pieces = data.len().div_ceil(PIECE_LEN).max(1);
        for index in 0..pieces {
            let piece = &data[index * PIECE_LEN..data.len().min((index + 1) * PIECE_LEN)];
            let eof = index + 1 == pieces;
            let body = Body::Input { exec: exec.to_owned(), data: piece.to_vec(), eof };
            if !tolerate_closed(self.ask(body, patience))? {
                break;
            }
        }
        Ok(())
    }
}

pub(super) fn existing(reply: &Reply) -> Result<bool, Failure> {
    match reply {
        Reply::Started { existing } => Ok(*existing),
        _ => Err(Failure::Unexpected),
    }
}

pub(super) fn state(reply: Reply) -> Result<ExecState, Failure> {
    match reply {
        Reply::State(state) => Ok(state),
        _ => Err(Failure::Unexpected),
    }
}

fn done(reply: &Reply) -> Result<(), Failure> {
    match reply {
        Reply::Done {} => Ok(()),
        _ => Err(Failure::Unexpected),
    }
}

/// Tells whether more input is wanted: a command may end, or close its input, before it has read everything.
pub(super) fn tolerate_closed(reply: Result<Reply, Failure>) -> Result<bool, Failure> {
    match reply {
        Ok(reply) => done(&reply).map(|()| true),
        Err(Failure::Fault(_)) => Ok(false),
        Err(failure) => Err(failure),
    }
}

pub(super) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
