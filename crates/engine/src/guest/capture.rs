//! Running a command to its end with as few round trips as can be.

use std::fmt;
use std::time::Duration;

use coracle_wire::{Body, Chunk, Command, ExecState, Reply};

use super::excerpt::{CHUNKS_MAX, Excerpt, Gap};
use super::execs::{PIECE_LEN, WAIT_SLICE, existing, millis, state, tolerate_closed};
use super::{Failure, Guest};
use crate::inline::Inline;

/// What a fresh pipe takes without anyone reading it: this much standard input never has to wait.
const PIPE_LEN: usize = 64 << 10;
/// A spool may keep its last chunk whole.
const SPOOL_SLACK: u64 = PIECE_LEN as u64;
/// What processes that were let live may add to the last chunk between the end and the reading: a whole chunk.
const LATE_MAX: u64 = 64 << 10;

/// How a command is started.
#[derive(Clone, Copy)]
pub struct Launch<'a> {
    pub exec: &'a str,
    /// Written to standard input, which is closed behind it.
    pub input: Option<&'a [u8]>,
    /// How long input may wait for the command to read it.
    pub patience: Duration,
    /// The caller chose the id, so the exec may have been started before.
    pub repeatable: bool,
    /// How much of the output is wanted.
    pub inline: &'a Inline,
    /// Called once the command runs, with whether it had been started before under this id.
    pub started: &'a dyn Fn(bool),
}

impl fmt::Debug for Launch<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Launch").field("exec", &self.exec).finish_non_exhaustive()
    }
}

/// What an exec has left behind at its end. By default, that of an exec whose guest went away.
#[derive(Debug)]
pub struct Capture {
    pub chunks: Vec<Chunk>,
    /// What the guest has beyond these chunks, where not all of it was wanted.
    pub gap: Option<Gap>,
    /// Its `ending` is absent if the guest went away first.
    pub state: ExecState,
}

impl Default for Capture {
    fn default() -> Self {
        Self { chunks: Vec::new(), gap: None, state: ExecState::unseen() }
    }
}

/// Output on its way here.
struct Intake {
    excerpt: Excerpt,
    state: ExecState,
    bytes: u64,
    last_seq: u64,
    /// How many chunks are to be asked for next.
    fitting: u32,
}

impl Intake {
    fn new(excerpt: Excerpt, inline: &Inline) -> Self {
        let fitting = inline.first_chunks();
        Self { excerpt, state: ExecState::unseen(), bytes: 0, last_seq: 0, fitting }
    }

    /// Adds output and tells whether there was any.
    ///
    /// Refuses what no honest guest sends: old chunks, empty ones, more than was to be kept.
    fn take(&mut self, output: Reply, bound: u64, inline: &Inline) -> Result<bool, Failure> {
        let Reply::Output { chunks, state } = output else { return Err(Failure::Unexpected) };
        let some = !chunks.is_empty();
        self.fitting = inline.chunks_like(&chunks);
        for chunk in chunks {
            self.bytes += chunk.data.len() as u64;
            let honest = chunk.seq > self.last_seq && !chunk.data.is_empty();
            if !honest || self.bytes > bound.saturating_add(SPOOL_SLACK) {
                return Err(Failure::Unexpected);
            }
            self.last_seq = chunk.seq;
            self.excerpt.push(chunk);
        }
        self.state = state;
        Ok(some)
    }
}

impl From<Intake> for Capture {
    fn from(intake: Intake) -> Self {
        let (chunks, gap) = intake.excerpt.into_parts();
        Self { chunks, gap, state: intake.state }
    }
}

/// Returns what to hold of the output of an exec that has ended.
fn excerpt_of(seen: &ExecState, inline: &Inline) -> Excerpt {
    let dropped = seen.truncation.map_or(0, |dropped| dropped.bytes);
    let kept = seen.stdout_bytes.saturating_add(seen.stderr_bytes).saturating_sub(dropped);
    let few = !inline.is_bounded() || seen.last_seq <= CHUNKS_MAX as u64;
    match inline.allot(kept) {
        most if most >= kept && few => Excerpt::whole(most.saturating_add(inline.meanwhile().max(LATE_MAX))),
        most => Excerpt::halves(most),
    }
}

impl Guest {
    /// Runs a command to its end and returns all its output.
    ///
    /// Start, wait and read leave in one write: an ordinary command costs one round trip. Once they have left, the
    /// command may run; a guest that goes away then is no failure but an end that was not seen.
    pub fn capture(&mut self, command: Command, launch: Launch<'_>) -> Result<Capture, Failure> {
        let Launch { exec, input, repeatable, .. } = launch;
        let bound = command.output_bytes;
        self.queue(Body::Start { exec: exec.to_owned(), command })?;
        // Input must reach the command once, so a start that may find an earlier one is looked at first.
        let later = input.filter(|data| repeatable || data.len() > PIPE_LEN);
        if later.is_none() {
            self.queue_rest(exec, input, launch.inline)?;
        }
        self.flush()?;

        let end = match later {
            Some(data) => self.finish_fed(launch, data, bound),
            None => self.finish_batch(launch, bound),
        };
        match end {
            Err(Failure::Gone) => Ok(Capture::default()),
            end => end,
        }
    }

    /// Waits for the end of an exec that another connection has started, and returns all its output.
    pub fn capture_again(&mut self, exec: &str, bound: u64, inline: &Inline) -> Result<Capture, Failure> {
        self.queue_rest(exec, None, inline)?;
        self.flush()?;
        self.collect(exec, bound, inline)
    }

    /// Gives an exec that waits for its input what it waits for, and returns its output when it has ended. `bound` is
    /// how much of that the guest keeps.
    pub fn capture_begun(
        &mut self,
        launch: Launch<'_>,
        renewed: Body,
        input: &[u8],
        bound: u64,
    ) -> Result<Capture, Failure> {
        self.queue(renewed)?;
        self.queue_rest(launch.exec, Some(input), launch.inline)?;
        self.flush()?;
        self.answer(launch.patience.max(WAIT_SLICE))?;
        tolerate_closed(self.answer(launch.patience.max(WAIT_SLICE)))?;
        self.collect(launch.exec, bound, launch.inline)
    }

    fn queue_rest(&mut self, exec: &str, input: Option<&[u8]>, inline: &Inline) -> Result<(), Failure> {
        if let Some(data) = input {
            self.queue(Body::Input { exec: exec.to_owned(), data: data.to_vec(), eof: true })?;
        }
        self.queue(Body::Wait { exec: exec.to_owned(), wait_ms: millis(WAIT_SLICE) })?;
        let max_chunks = inline.first_chunks();
        self.queue(Body::Read { exec: exec.to_owned(), since: 0, max_chunks, wait_ms: 0 })
    }

    /// Reads the answers to a start that everything else was sent along with.
    fn finish_batch(&mut self, launch: Launch<'_>, bound: u64) -> Result<Capture, Failure> {
        let fed = launch.input.is_some();
        // One patience for the whole batch: telling the kernel another one for each answer costs more than it is worth.
        match self.answer(WAIT_SLICE).and_then(|reply| existing(&reply)) {
            Ok(existing) => (launch.started)(existing),
            Err(failure) => return Err(self.skip(usize::from(fed) + 2, failure)),
        }
        if fed {
            tolerate_closed(self.answer(launch.patience.max(WAIT_SLICE)))?;
        }
        self.collect(launch.exec, bound, launch.inline)
    }

    /// Reads the answer to a lone start, and sends its input unless an earlier start has.
    fn finish_fed(&mut self, launch: Launch<'_>, data: &[u8], bound: u64) -> Result<Capture, Failure> {
        let existing = existing(&self.answer(WAIT_SLICE)?)?;
        (launch.started)(existing);
        if !existing {
            self.feed(launch.exec, data, launch.patience)?;
        }
        self.queue_rest(launch.exec, None, launch.inline)?;
        self.flush()?;
        self.collect(launch.exec, bound, launch.inline)
    }

    /// Reads the answers to `queue_rest` and asks on until the exec has ended and the output that is wanted is here.
    fn collect(&mut self, exec: &str, bound: u64, inline: &Inline) -> Result<Capture, Failure> {
        let mut intake = Intake::new(Excerpt::whole(0), inline);
        match self.collect_into(exec, bound, inline, &mut intake) {
            Ok(()) => Ok(intake.into()),
            Err(Failure::Gone) => {
                intake.state.ending = None;
                Ok(intake.into())
            }
            Err(failure) => Err(failure),
        }
    }

    fn collect_into(
        &mut self,
        exec: &str,
        bound: u64,
        inline: &Inline,
        intake: &mut Intake,
    ) -> Result<(), Failure> {
        let mut seen = state(self.answer(WAIT_SLICE)?)?;
        let mut output = self.answer(WAIT_SLICE)?;
        if seen.ending.is_none() {
            // Kept only for the case that the guest goes away: what was read before the end may be dropped from the
            // middle of the spool later, and would no longer fit what is read after it.
            *intake = Intake::new(Excerpt::whole(inline.meanwhile()), inline);
            intake.take(output, bound, inline)?;
            while seen.ending.is_none() {
                seen = self.wait(exec, WAIT_SLICE)?;
            }
            output = self.read_on(exec, 0, inline.first_chunks())?;
        }
        *intake = Intake::new(excerpt_of(&seen, inline), inline);
        // No further than the end itself: processes that were let live may go on writing for ever.
        while intake.take(output, bound, inline)? && intake.last_seq < seen.last_seq {
            output = self.read_on(exec, intake.last_seq, intake.fitting)?;
        }
        Ok(())
    }

    fn read_on(&mut self, exec: &str, since: u64, max_chunks: u32) -> Result<Reply, Failure> {
        let read = Body::Read { exec: exec.to_owned(), since, max_chunks, wait_ms: 0 };
        self.ask(read, WAIT_SLICE)
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
