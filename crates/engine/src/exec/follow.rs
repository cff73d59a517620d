//! Output as it comes, for doors that stream.

use std::time::Duration;

use coracle_core::cancel::Registration;
use coracle_core::{Error, ExecId, Kind, Result, SandboxId};
use coracle_wire as wire;
use tracing::Span;

use super::Execs;
use crate::access::gate::Inside;
use crate::access::rejoin;
use crate::egress::ProxyWatch;
use crate::exec::cancel::cut_at_cancel;
use crate::exec::progress::Progress;
use crate::guest::{Failure, WAIT_SLICE};
use crate::{Call, Caller, spans};

/// A numbered piece of output.
pub use coracle_wire::{Chunk, Stream};

/// Some output and what is known of the exec.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Batch {
    pub chunks: Vec<Chunk>,
    /// Completed in the last batch, and only there.
    pub progress: Progress,
}

/// Follows one exec on a connection of its own. Dropping it leaves the exec alone.
#[derive(Debug)]
pub struct Follow(Source);

/// Where output comes from.
#[derive(Debug)]
enum Source {
    Guest(Box<Live>),
    Kept(Box<Past>),
    /// An exec of a killed life: how it ended is all that is known, until that was handed out.
    Told(Option<Box<Progress>>),
}

/// An exec whose sandbox was closed.
#[derive(Debug)]
struct Past {
    execs: Execs,
    caller: Caller,
    sandbox: SandboxId,
    exec: ExecId,
    since: u64,
    done: bool,
}

/// An exec in a sandbox that is there.
#[derive(Debug)]
struct Live {
    execs: Execs,
    inside: Inside,
    /// The output is meant for us, and waits to be read.
    attended: bool,
    /// How often the way to the guest broke.
    breaks: u32,
    call: Call,
    /// Ends a reading that waits when the call is cancelled.
    cut: Registration,
    /// Replaces the keeper of its network if that is killed meanwhile.
    _proxy_watch: Option<ProxyWatch>,
    exec: ExecId,
    since: u64,
    /// How many chunks are asked for: as many as fit a batch if they are like the last. More would be sent for nothing.
    fitting: u32,
    /// The newest chunk at the end of the exec, once that was seen.
    until: Option<u64>,
    last: Option<wire::ExecState>,
    done: bool,
    /// From the first look to the end, or until this is dropped.
    span: Span,
    /// Bytes of output handed out.
    carried: u64,
}

impl Execs {
    /// Starts reading an exec's output behind chunk `since_seq`.
    pub fn follow(
        &self,
        call: impl Into<Call>,
        sandbox: &SandboxId,
        exec: &ExecId,
        since_seq: u64,
    ) -> Result<Follow> {
        let call = call.into();
        if self.kept_log(&call.caller, sandbox, exec)?.is_some() {
            let (execs, caller) = (self.clone(), call.caller);
            let (sandbox, exec) = (sandbox.clone(), exec.clone());
            let past = Past { execs, caller, sandbox, exec, since: since_seq, done: false };
            return Ok(Follow(Source::Kept(Box::new(past))));
        }
        let mut inside = self.entry.enter_to_look(&call, sandbox)?;
        // That there is no such exec is to be said now, not in the middle of a stream.
        if let Err(failure) = inside.guest.wait(exec.as_str(), Duration::ZERO) {
            let progress = self.of_killed_life(&inside.record, exec, failure)?;
            return Ok(Follow(Source::Told(Some(Box::new(progress)))));
        }
        self.follow_inside(&call, inside, exec, since_seq).map(Live::into)
    }

    fn follow_inside(&self, call: &Call, inside: Inside, exec: &ExecId, since_seq: u64) -> Result<Live> {
        let span = spans::follow(&inside.record, exec);
        Ok(Live {
            cut: cut_at_cancel(call, &inside.guest)?,
            call: call.clone(),
            _proxy_watch: self.egress.watch_keeper(&inside.record),
            span,
            carried: 0,
            execs: self.clone(),
            inside,
            attended: false,
            breaks: 0,
            exec: exec.clone(),
            since: since_seq,
            fitting: self.inline.first_chunks(),
            until: None,
            last: None,
            done: false,
        })
    }

    /// Follows an exec that was started on this connection and is attended from it.
    pub(crate) fn follow_attended(&self, call: &Call, inside: Inside, exec: &ExecId) -> Result<Follow> {
        let mut live = self.follow_inside(call, inside, exec, 0)?;
        live.attended = true;
        Ok(live.into())
    }
}

impl From<Live> for Follow {
    fn from(live: Live) -> Self {
        Self(Source::Guest(Box::new(live)))
    }
}

impl Follow {
    /// Returns the next output, waiting for it; `None` behind the last batch.
    ///
    /// A batch may be empty: it only says that the exec is still running. A guest that goes away ends the exec as
    /// `lost`. An error leaves the place as it was: a new `follow` from [`Follow::seq`] goes on.
    pub fn next_batch(&mut self) -> Result<Option<Batch>> {
        match &mut self.0 {
            Source::Guest(live) => live.next_batch(),
            Source::Kept(past) => past.next_batch(),
            Source::Told(progress) => {
                Ok(progress.take().map(|progress| Batch { chunks: Vec::new(), progress: *progress }))
            }
        }
    }

    /// Has the output meant for this reader from now on: a command waits until its output was read, and a terminal is
    /// hung up when this is dropped. Output of a closed sandbox does not wait.
    pub fn attend(&mut self) -> Result<()> {
        if let Source::Guest(live) = &mut self.0 {
            live.inside.guest.attend(live.exec.as_str(), live.since)?;
            live.attended = true;
        }
        Ok(())
    }

    /// Returns the number of the newest chunk handed out.
    pub fn seq(&self) -> u64 {
        match &self.0 {
            Source::Guest(live) => live.since,
            Source::Kept(past) => past.since,
            Source::Told(_) => 0,
        }
    }
}

impl Past {
    /// Reads what is kept anew for each batch: a reader that takes its time must not hold all of it.
    fn next_batch(&mut self) -> Result<Option<Batch>> {
        if self.done {
            return Ok(None);
        }
        let kept = self.execs.kept_log(&self.caller, &self.sandbox, &self.exec)?;
        let kept = kept.ok_or_else(|| forgotten(&self.exec))?;
        let mut chunks = kept.chunks_behind(self.since);
        let all = chunks.len();
        self.execs.inline.shorten(&mut chunks);
        self.since = chunks.last().map_or(self.since, |chunk| chunk.seq);
        self.done = chunks.len() == all;
        let progress = if self.done { kept.progress } else { kept.progress.before_the_end() };
        Ok(Some(Batch { chunks, progress }))
    }
}

impl Live {
    fn next_batch(&mut self) -> Result<Option<Batch>> {
        if self.done {
            return Ok(None);
        }
        let span = self.span.clone();
        let next = span.in_scope(|| self.read_on());
        match &next {
            Ok(batch) => self.carried = spans::followed(&span, batch, self.carried),
            Err(error) => spans::failed(&span, error),
        }
        next.map(Some)
    }

    fn read_on(&mut self) -> Result<Batch> {
        let (mut chunks, state) = loop {
            match self.inside.guest.read(self.exec.as_str(), self.since, self.fitting, WAIT_SLICE) {
                Ok(output) => break output,
                Err(_) if self.call.cancel.is_cancelled() => return Err(self.call.cancel.reason()),
                Err(Failure::Gone) if self.rejoin()? => {}
                Err(Failure::Gone) => return Ok(self.lose()),
                Err(failure) => return Err(failure.into()),
            }
        };
        let inline = &self.execs.inline;
        inline.shorten(&mut chunks);
        self.fitting = inline.chunks_like(&chunks);
        self.since = chunks.last().map_or(self.since, |chunk| chunk.seq);
        if state.ending.is_some() {
            // No further than this: processes that were let live may go on writing for ever.
            self.until.get_or_insert(state.last_seq);
        }
        // The end is told with the last chunk, not before it. What was not kept never comes, so nothing left is enough.
        self.done = self.until.is_some_and(|until| chunks.is_empty() || self.since >= until);
        if self.done {
            match self.attended {
                // The attending process stays until the event is written.
                true => self.execs.tell_ended_soon(&self.inside.record, &self.exec, &state),
                false => self.execs.tell_ended(&self.inside.record, &self.exec, &state),
            }
        }
        let shown = wire::ExecState { ending: state.ending.filter(|_| self.done), ..state.clone() };
        self.last = Some(state);
        Ok(Batch { chunks, progress: Progress::of(&shown) })
    }

    /// Goes on over another connection, behind the last chunk handed out; `false` if the guest was not found again.
    fn rejoin(&mut self) -> Result<bool> {
        self.breaks += 1;
        if self.breaks > rejoin::TIMES_MAX {
            return Ok(false);
        }
        if !self.execs.access.rejoin_inside(&self.call, &mut self.inside) {
            return Ok(false);
        }
        self.cut = cut_at_cancel(&self.call, &self.inside.guest)?;
        match self.attended.then(|| self.inside.guest.attend(self.exec.as_str(), self.since)) {
            // It broke again: the next reading finds out.
            None | Some(Ok(()) | Err(Failure::Gone)) => Ok(true),
            Some(Err(failure)) => Err(failure.into()),
        }
    }

    fn lose(&mut self) -> Batch {
        self.done = true;
        let progress = self.last.as_ref().map_or_else(Progress::lost, Progress::final_of);
        Batch { chunks: Vec::new(), progress }
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        // What was seen of the end is told already.
        if !self.done {
            spans::output(&self.span, self.carried);
        }
    }
}

fn forgotten(exec: &ExecId) -> Error {
    Error::new(Kind::NotFound, format!("the output of `{exec}` is not kept any more"))
}
