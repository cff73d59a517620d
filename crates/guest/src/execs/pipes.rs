//! Moves output from pipes into spools, and makes commands wait for the attendants of their exec.

use std::os::fd::OwnedFd;
use std::time::Instant;

use coracle_sys::rustix;
use coracle_sys::rustix::io::Errno;
use coracle_sys::signal;
use coracle_wire::{Fault, Stream};

use super::exec::{Attendant, Exec, Phase};
use super::spool::whole;
use super::table::{BUDGET, Execs, Table, unknown};
use crate::weak::{self, Wall};

/// The most one look at a pipe reads, so that one loud exec cannot keep the others waiting.
const READ_MAX: usize = 256 << 10;

/// The reading end of an exec's output.
#[derive(Debug)]
pub struct Pipe {
    pub exec: String,
    pub stream: Stream,
    pub descriptor: OwnedFd,
    /// The first bytes of a character whose rest has not arrived yet.
    pub begun: Vec<u8>,
}

/// Whether draining a pipe stops when the spool is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SpoolLimit {
    Enforced,
    Ignored,
}

/// The result of a look at a pipe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Drained {
    Open,
    Closed,
    /// The spool is full: the attendants have to read first.
    Full,
}

impl Execs {
    /// Reads what is waiting in a pipe. Calls `unwatch` with the pipe at its end, or if the spool has no room now:
    /// a terminal is open elsewhere too, and epoll would go on reporting its end.
    pub fn drain(&self, token: u64, unwatch: impl Fn(&OwnedFd)) {
        let mut table = self.lock();
        let drained = table.drain(token, READ_MAX, SpoolLimit::Enforced);
        if table.is_left_over(token) {
            table.bound_ended();
        }
        match drained {
            Drained::Open => {}
            Drained::Closed => {
                if let Some(pipe) = table.close(token) {
                    unwatch(&pipe.descriptor);
                }
            }
            Drained::Full => {
                table.paused.push(token);
                if let Some(pipe) = table.pipes.get(&token) {
                    unwatch(&pipe.descriptor);
                }
            }
        }
        drop(table);
        self.notify();
    }

    /// Watches those paused pipes again for which there is room now.
    pub fn resume(&self, watch: impl Fn(u64, &OwnedFd)) {
        let mut table = self.lock();
        let paused = std::mem::take(&mut table.paused);
        for token in paused {
            match table.pipes.get(&token) {
                Some(pipe) if table.is_full(pipe) => table.paused.push(token),
                Some(pipe) => watch(token, &pipe.descriptor),
                None => {}
            }
        }
    }

    /// Records that a connection attends an exec, and the last chunk it has.
    pub fn attend(&self, exec: &str, attendant: Attendant) -> Result<(), Fault> {
        let mut table = self.lock();
        let found = table.execs.get_mut(exec).ok_or_else(|| unknown(exec))?;
        found.expected = None;
        found.attendants.insert(attendant.connection, attendant);
        Ok(())
    }

    /// Removes attendants of epochs before `epoch`, so that they hold no command back, and wakes all waiters.
    /// Returns whether the epoch is new. Does not hang up a terminal that loses its last attendant here: it was
    /// handed over with the sandbox.
    pub fn dismiss_before(&self, epoch: u64) -> bool {
        let mut table = self.lock();
        if table.epoch >= epoch || weak::off(Wall::Attendants) {
            return false;
        }
        table.epoch = epoch;
        for exec in table.execs.values_mut().filter(|exec| !exec.is_ended()) {
            exec.attendants.retain(|_, attendant| attendant.epoch >= epoch);
            exec.expected = exec.expected.filter(|_| exec.epoch >= epoch);
        }
        drop(table);
        self.notify();
        true
    }

    /// Removes an attendant whose connection has gone. Hangs up a terminal that has no attendant left.
    pub fn leave(&self, exec: &str, connection: u64) {
        let mut table = self.lock();
        let Some(found) = table.execs.get_mut(exec) else { return };
        let last = found.attendants.remove(&connection).is_some() && found.attendants.is_empty();
        if last && found.terminal.is_some() && matches!(found.phase, Phase::Running) {
            // The guest does not reap the leader while this thread holds the table, so the group is still the
            // leader's.
            let _ = signal::send_to_group(found.pid, rustix::process::Signal::HUP.as_raw());
        }
    }
}

impl Table {
    /// Reads up to `most` bytes from a pipe into its exec's spool.
    pub(super) fn drain(&mut self, token: u64, most: usize, spool_limit: SpoolLimit) -> Drained {
        let share = self.share();
        let now = Instant::now();
        let Some(pipe) = self.pipes.get_mut(&token) else { return Drained::Closed };
        // Also for an exec that has ended: the guest keeps or counts the output of its background processes like
        // any other.
        let mut exec = self.execs.get_mut(&pipe.exec);
        let held = exec.as_ref().and_then(|exec| exec.held(now));
        let limit = exec.as_ref().map_or(0, |exec| exec.output_bytes.min(share));
        let mut buffer = [0; 64 << 10];
        let mut taken = 0;
        while taken < most {
            let full = exec.as_ref().zip(held).is_some_and(|(exec, held)| exec.spool.is_full(limit, held));
            if full && spool_limit == SpoolLimit::Enforced {
                return Drained::Full;
            }
            let begun = pipe.begun.len();
            buffer[..begun].copy_from_slice(&pipe.begun);
            match rustix::io::read(&pipe.descriptor, &mut buffer[begun..]) {
                Ok(0) => return Drained::Closed,
                Ok(length) => {
                    taken += length;
                    let data = &buffer[..begun + length];
                    let (data, rest) = data.split_at(whole(data));
                    pipe.begun = rest.to_vec();
                    if let Some(exec) = &mut exec {
                        exec.spool.push(pipe.stream, data, limit, held);
                    }
                }
                Err(Errno::AGAIN) => return Drained::Open,
                Err(Errno::INTR) => {}
                // A terminal whose last user has gone.
                Err(_) => return Drained::Closed,
            }
        }
        Drained::Open
    }

    /// Forgets a pipe. If it ends within a character, keeps the bytes that came.
    pub(super) fn close(&mut self, token: u64) -> Option<Pipe> {
        let share = self.share();
        let pipe = self.pipes.remove(&token)?;
        if let Some(exec) = self.execs.get_mut(&pipe.exec) {
            let held = exec.held(Instant::now());
            exec.spool.push(pipe.stream, &pipe.begun, exec.output_bytes.min(share), held);
        }
        Some(pipe)
    }

    /// Returns how much output one exec may keep, so that every exec that writes gets a share.
    fn share(&self) -> usize {
        let left_over = self.pipes.keys().filter(|token| self.is_left_over(**token)).count();
        BUDGET / (self.running() + left_over).max(1)
    }

    /// Tells whether only background processes of an ended exec write to a pipe.
    fn is_left_over(&self, token: u64) -> bool {
        let pipe = self.pipes.get(&token);
        pipe.is_some_and(|pipe| self.execs.get(&pipe.exec).is_none_or(Exec::is_ended))
    }

    fn is_full(&self, pipe: &Pipe) -> bool {
        let Some(exec) = self.execs.get(&pipe.exec) else { return false };
        let limit = exec.output_bytes.min(self.share());
        exec.held(Instant::now()).is_some_and(|held| exec.spool.is_full(limit, held))
    }
}
