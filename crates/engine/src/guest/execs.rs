//! Commands in a sandbox: start, output, end.

use std::time::Duration;

use coracle_wire::{Body, Chunk, Command, ExecState, ExecSummary, Reply, Terminal};

use super::{Failure, Guest};

/// The longest single wait asked of a guest. Longer ones are made of several, so that a guest that hangs is noticed.
pub const WAIT_SLICE: Duration = Duration::from_secs(20);
/// Longer than this nobody means a grace between TERM and KILL.
pub const GRACE_MAX: Duration = Duration::from_secs(600);
/// What a fresh pipe takes without anyone reading it: this much standard input never has to wait.
const PIPE_LEN: usize = 64 << 10;
/// The most data put into one frame, with room for what stands around it.
pub(super) const PIECE_LEN: usize = 1 << 20;
/// A spool may keep its last chunk whole.
const SPOOL_SLACK: u64 = PIECE_LEN as u64;
/// No bound of its own: the frame is the bound.
pub const ALL_CHUNKS: u32 = u32::MAX;

/// A command to run to its end.
#[derive(Debug)]
pub struct Launch<'a> {
    pub exec: &'a str,
    pub command: Command,
    /// Written to standard input, which is closed behind it.
    pub input: Option<&'a [u8]>,
    /// The caller chose the id, so the exec may have been started before.
    pub repeatable: bool,
}

/// Everything an exec has left behind at its end.
#[derive(Debug)]
pub struct Capture {
    pub chunks: Vec<Chunk>,
    /// Its `ending` is absent if the guest went away first.
    pub state: ExecState,
    bytes: u64,
}

impl Capture {
    /// Adds output, refusing what no honest guest sends: old chunks, empty ones, more than was to be kept.
    fn take(&mut self, chunks: Vec<Chunk>, state: ExecState, bound: u64) -> Result<(), Failure> {
        for chunk in chunks {
            self.bytes += chunk.data.len() as u64;
            let honest = chunk.seq > self.last_seq() && !chunk.data.is_empty();
            if !honest || self.bytes > bound.saturating_add(SPOOL_SLACK) {
                return Err(Failure::Unexpected);
            }
            self.chunks.push(chunk);
        }
        self.state = state;
        Ok(())
    }

    fn last_seq(&self) -> u64 {
        self.chunks.last().map_or(0, |chunk| chunk.seq)
    }
}

impl Guest {
    /// Starts a command; tells whether it had been started before under this id.
    pub fn start(&mut self, exec: &str, command: Command) -> Result<bool, Failure> {
        let reply = self.ask(Body::Start { exec: exec.to_owned(), command }, Duration::ZERO)?;
        existing(&reply)
    }

    /// Runs a command to its end and returns all its output.
    ///
    /// Start, wait and read leave in one write: an ordinary command costs one round trip. After the start a guest
    /// that goes away is no failure but an end that was not seen. Calls `started` once the command runs.
    pub fn capture(
        &mut self,
        launch: Launch<'_>,
        patience: Duration,
        started: &dyn Fn(),
    ) -> Result<Capture, Failure> {
        // Input must reach the command once, so a start that may find an earlier one is looked at first.
        match launch.input {
            Some(data) if launch.repeatable || data.len() > PIPE_LEN => {
                self.capture_in_steps(launch, data, patience, started)
            }
            _ => self.capture_at_once(launch, started),
        }
    }

    fn capture_at_once(&mut self, launch: Launch<'_>, started: &dyn Fn()) -> Result<Capture, Failure> {
        let Launch { exec, command, input, .. } = launch;
        let bound = command.output_bytes;
        self.queue(Body::Start { exec: exec.to_owned(), command })?;
        if let Some(data) = input {
            self.queue(Body::Input { exec: exec.to_owned(), data: data.to_vec(), eof: true })?;
        }
        self.queue_end(exec)?;
        self.flush()?;

        // One patience for the whole batch: telling the kernel another one for each answer would cost more than it is worth.
        match self.answer(WAIT_SLICE).and_then(|reply| existing(&reply)) {
            Ok(_) => started(),
            Err(failure) => return Err(self.skip(usize::from(input.is_some()) + 2, failure)),
        }
        if input.is_some() {
            tolerate_closed(self.answer(WAIT_SLICE))?;
        }
        self.collect(exec, bound)
    }

    fn capture_in_steps(
        &mut self,
        launch: Launch<'_>,
        data: &[u8],
        patience: Duration,
        started: &dyn Fn(),
    ) -> Result<Capture, Failure> {
        let (exec, bound) = (launch.exec, launch.command.output_bytes);
        let existing = self.start(exec, launch.command)?;
        started();
        if !existing {
            self.feed(exec, data, patience)?;
        }
        self.queue_end(exec)?;
        self.flush()?;
        self.collect(exec, bound)
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

    fn queue_end(&mut self, exec: &str) -> Result<(), Failure> {
        self.queue(Body::Wait { exec: exec.to_owned(), wait_ms: millis(WAIT_SLICE) })?;
        self.queue(Body::Read { exec: exec.to_owned(), since: 0, max_chunks: ALL_CHUNKS, wait_ms: 0 })
    }

    /// Reads the answers to `queue_end` and asks on until the exec has ended and all its output is here.
    fn collect(&mut self, exec: &str, bound: u64) -> Result<Capture, Failure> {
        let mut capture = Capture { chunks: Vec::new(), state: unknown(), bytes: 0 };
        match self.collect_into(exec, bound, &mut capture) {
            Ok(()) => Ok(capture),
            Err(Failure::Gone) => {
                capture.state.ending = None;
                Ok(capture)
            }
            Err(failure) => Err(failure),
        }
    }

    fn collect_into(&mut self, exec: &str, bound: u64, capture: &mut Capture) -> Result<(), Failure> {
        capture.state = state(self.answer(WAIT_SLICE)?)?;
        let mut ended = capture.state.ending.is_some();
        let mut output = self.answer(WAIT_SLICE)?;
        loop {
            let Reply::Output { chunks, state } = output else { return Err(Failure::Unexpected) };
            // A read that was answered before the end was seen does not prove that no output follows it.
            let complete = ended && chunks.last().is_none_or(|chunk| chunk.seq >= state.last_seq);
            capture.take(chunks, state, bound)?;
            if complete {
                return Ok(());
            }
            if !ended {
                ended = self.wait(exec, WAIT_SLICE)?.ending.is_some();
            }
            let since = capture.last_seq();
            let read = Body::Read { exec: exec.to_owned(), since, max_chunks: ALL_CHUNKS, wait_ms: 0 };
            output = self.ask(read, WAIT_SLICE)?;
        }
    }

    /// Reads the answers to what was sent along with a start that failed, so that the connection stays in step.
    fn skip(&mut self, answers: usize, failure: Failure) -> Failure {
        for _ in 0..answers {
            match self.answer(WAIT_SLICE) {
                Ok(_) | Err(Failure::Fault(_)) => {}
                Err(_) => break,
            }
        }
        failure
    }
}

fn existing(reply: &Reply) -> Result<bool, Failure> {
    match reply {
        Reply::Started { existing } => Ok(*existing),
        _ => Err(Failure::Unexpected),
    }
}

fn state(reply: Reply) -> Result<ExecState, Failure> {
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
fn tolerate_closed(reply: Result<Reply, Failure>) -> Result<bool, Failure> {
    match reply {
        Ok(reply) => done(&reply).map(|()| true),
        Err(Failure::Fault(_)) => Ok(false),
        Err(failure) => Err(failure),
    }
}

fn unknown() -> ExecState {
    ExecState {
        ending: None,
        limits: Vec::new(),
        stdout_bytes: 0,
        stderr_bytes: 0,
        truncation: None,
        duration_ms: 0,
        last_seq: 0,
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
