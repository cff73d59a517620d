//! Starting a command, and running one to its end.

use std::cell::OnceCell;
use std::sync::Arc;
use std::time::Duration;

use coracle_core::{Error, ExecId, Result, SandboxId};
use coracle_wire::{Chunk, Ending, Stream};

use super::Execs;
use super::cancel::{AtCancel, cut_at_cancel};
use super::part::Part;
use super::{Captured, ExecRequest, Started, Stdin, image, naming};
use crate::access::gate::Inside;
use crate::access::rejoin;
use crate::access::tie::Tied;
use crate::call::Running;
use crate::exec::progress::Progress;
use crate::guest::{Capture, FOR_EVER, Failure, Launch};
use crate::ops::sandbox::exec;
use crate::random::random;
use crate::{Call, crash, spans};

/// When the output of a command is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reader {
    /// At some time, or never; what does not fit the spool is dropped.
    Later,
    /// At once, on the connection it was started on: it waits instead of losing output.
    Attends,
}

impl Execs {
    /// Starts a command and returns at once. With `Stdin::Bytes` the input is written before it returns.
    pub fn start(
        &self,
        call: impl Into<Call>,
        sandbox: &SandboxId,
        request: &ExecRequest,
    ) -> Result<Started> {
        let call = call.into();
        self.access.performing(&call, &exec::FACTS, || {
            self.start_in(&call, &mut self.entry.enter(&call, sandbox)?, request)
        })
    }

    /// Runs a command to its end. If the call is cancelled, the command is stopped, unless another call has started it.
    pub fn run(&self, call: impl Into<Call>, sandbox: &SandboxId, request: &ExecRequest) -> Result<Captured> {
        let call = call.into();
        self.access.performing(&call, &exec::FACTS, || {
            self.run_in(&call, &mut self.entry.enter(&call, sandbox)?, request)
        })
    }

    pub(crate) fn start_in(
        &self,
        call: &Call,
        inside: &mut Inside,
        request: &ExecRequest,
    ) -> Result<Started> {
        let exec_id = self.id_of(request)?;
        self.start_as(call, inside, request, exec_id, Reader::Later)
    }

    /// Starts a command whose output is read at once or later.
    pub(super) fn start_as(
        &self,
        call: &Call,
        inside: &mut Inside,
        request: &ExecRequest,
        exec_id: ExecId,
        reader: Reader,
    ) -> Result<Started> {
        spans::within(spans::start(&inside.record, &exec_id), || {
            let (mut command, began) =
                (request.checked(&inside.record, &self.policy)?, self.records.moment()?);
            self.expect_unstarted(inside, request, &exec_id)?;
            self.egress.keep(&inside.record)?;
            command.tied = Some(self.tie_exec(call, inside, request, &exec_id)?);
            self.records.crash_at(crash::EXEC_ADMIT_AFTER);
            let patience = patience(command.deadline_ms, command.grace_ms);
            let started = match reader {
                Reader::Later => inside.guest.start(exec_id.as_str(), command),
                Reader::Attends => {
                    command.attended = true;
                    inside.guest.start_attended(exec_id.as_str(), command)
                }
            };
            let existing = started.map_err(|failure| not_started(failure, inside, request, &exec_id))?;
            self.records.crash_at(crash::EXEC_START_AFTER);
            match reader {
                Reader::Later => self.tell_started(&inside.record, &exec_id, began),
                Reader::Attends => self.tell_started_soon(&inside.record, &exec_id, began),
            }
            match &request.stdin {
                // The first start has written the input, or is writing it.
                Stdin::Bytes(data) if !existing => inside.guest.feed(exec_id.as_str(), data, patience)?,
                Stdin::Bytes(_) | Stdin::Empty | Stdin::Open => {}
            }
            Ok(Started { exec_id, existing })
        })
    }

    /// Runs a command to its end. If the call is cancelled, the command is stopped, unless another call has started it.
    pub(crate) fn run_in(&self, call: &Call, inside: &mut Inside, request: &ExecRequest) -> Result<Captured> {
        self.run_until(call, inside, request, AtCancel::StopExec)
    }

    /// Runs a command to its end, or until the call is cancelled.
    pub(crate) fn run_until(
        &self,
        call: &Call,
        inside: &mut Inside,
        request: &ExecRequest,
        at_cancel: AtCancel,
    ) -> Result<Captured> {
        let exec_id = self.id_of(request)?;
        let span = spans::exec(&inside.record, &exec_id);
        spans::captured(span, || self.run_as(call, inside, request, exec_id, at_cancel))
    }

    fn run_as(
        &self,
        call: &Call,
        inside: &mut Inside,
        request: &ExecRequest,
        exec_id: ExecId,
        at_cancel: AtCancel,
    ) -> Result<Captured> {
        let (mut command, began) = (request.checked(&inside.record, &self.policy)?, self.records.moment()?);
        self.expect_unstarted(inside, request, &exec_id)?;
        self.egress.keep(&inside.record)?;
        let _proxy_watch = self.egress.watch_keeper(&inside.record);
        let denied = self.egress.last_denial(&inside.record);
        command.tied = Some(self.tie_exec(call, inside, request, &exec_id)?);
        self.records.crash_at(crash::EXEC_ADMIT_AFTER);
        let part = (at_cancel == AtCancel::StopExec && call.cancel.is_shared())
            .then(|| Part::new(self, call, inside, request, &exec_id))
            .transpose()?
            .map(Arc::new);
        let _cancelled = part.clone().map(|part| call.cancel.on_cancel(move || part.cancel()));
        let refused = OnceCell::new();
        let launch = Launch {
            exec: exec_id.as_str(),
            input: match &request.stdin {
                Stdin::Bytes(data) => Some(data),
                Stdin::Empty | Stdin::Open => None,
            },
            patience: patience(command.deadline_ms, command.grace_ms),
            repeatable: request.exec_id.is_some(),
            inline: &self.inline,
            started: &|existing| {
                spans::started();
                self.records.crash_at(crash::EXEC_START_AFTER);
                // The command runs meanwhile.
                self.tell_started_soon(&inside.record, &exec_id, began);
                let running = Running { sandbox: &inside.record.id, exec: &exec_id, existing };
                let seen = call.observer.started(&running).map_err(|error| refused.set(error));
                if let Some(part) = &part {
                    part.know(existing);
                    // Cancelled before it was started, it was not there to be stopped.
                    if seen.is_err() || call.cancel.is_cancelled() {
                        part.end();
                    }
                }
            },
        };
        let bound = command.output_bytes;
        let ran = inside.guest.capture(command, launch);
        if let Some(error) = refused.into_inner() {
            return Err(error);
        }
        // One that came to its end before the cancel did has ended.
        let ended =
            |capture: &Capture| matches!(capture.state.ending, Some(ending) if ending != Ending::Stopped);
        if !ran.as_ref().is_ok_and(ended) {
            call.cancel.check()?;
        }
        let ran = ran.map(|capture| match &request.stdin {
            Stdin::Empty => self.capture_again(call, inside, &exec_id, capture, bound),
            // How much of its input has reached it is not known.
            Stdin::Bytes(_) | Stdin::Open => capture,
        });
        let capture = ran.map_err(|failure| not_started(failure, inside, request, &exec_id))?;
        self.records.crash_at(crash::EXEC_END_AFTER);
        self.tell_ended_soon(&inside.record, &exec_id, &capture.state);

        let egress_denied = self.egress.denied_since(&inside.record, denied);
        Ok(Captured { egress_denied, ..captured(exec_id, capture) })
    }

    fn tie_exec(
        &self,
        call: &Call,
        inside: &mut Inside,
        request: &ExecRequest,
        exec: &ExecId,
    ) -> Result<bool> {
        match request.tied {
            true => self.access.tie(call, inside, Tied::Exec(exec.clone())),
            false => Ok(false),
        }
    }

    /// Goes on waiting for a command whose end was not seen because the way to its guest broke.
    fn capture_again(
        &self,
        call: &Call,
        inside: &mut Inside,
        exec: &ExecId,
        mut capture: Capture,
        bound: u64,
    ) -> Capture {
        for _ in 0..rejoin::TIMES_MAX {
            if capture.state.ending.is_some() || !self.access.rejoin_inside(call, inside) {
                break;
            }
            let Ok(_cut) = cut_at_cancel(call, &inside.guest) else { break };
            // A guest that does not know it was never told to start it.
            let Ok(more) = inside.guest.capture_again(exec.as_str(), bound, &self.inline) else { break };
            capture = more;
        }
        capture
    }

    pub(super) fn id_of(&self, request: &ExecRequest) -> Result<ExecId> {
        match &request.exec_id {
            Some(id) => Ok(id.clone()),
            None => self.new_id(),
        }
    }

    /// Makes up the id of an exec, for a caller that has to know it before the command runs.
    pub fn new_id(&self) -> Result<ExecId> {
        Ok(ExecId::generate(self.records.now(), random()?))
    }
}

/// Returns the error for a command that was not started, with what the guest alone does not know.
fn not_started(failure: Failure, inside: &mut Inside, request: &ExecRequest, exec_id: &ExecId) -> Error {
    let error = image::explained(failure.into(), &inside.record, &request.argv);
    naming::explain_taken(error, &mut inside.guest, exec_id)
}

/// Sorts what a command left behind.
pub(super) fn captured(exec_id: ExecId, capture: Capture) -> Captured {
    let (stdout, stderr) = split(capture.chunks);
    let mut progress = Progress::final_of(&capture.state);
    if let Some(gap) = &capture.gap {
        progress.leave_out(gap);
    }
    Captured { exec_id, progress, stdout, stderr, gap: capture.gap, egress_denied: Vec::new() }
}

/// How long standard input may wait for a command to read it: no longer than the command may live.
pub(super) fn patience(deadline_ms: Option<u64>, grace_ms: u64) -> Duration {
    deadline_ms.map_or(FOR_EVER, |deadline| Duration::from_millis(deadline.saturating_add(grace_ms)))
}

fn split(chunks: Vec<Chunk>) -> (Vec<u8>, Vec<u8>) {
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    for chunk in chunks {
        let sink = match chunk.stream {
            Stream::Stdout => &mut stdout,
            Stream::Stderr => &mut stderr,
        };
        match sink.is_empty() {
            true => *sink = chunk.data,
            false => sink.extend_from_slice(&chunk.data),
        }
    }
    (stdout, stderr)
}
