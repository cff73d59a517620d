//! Starting a command, and running one to its end.

use std::time::Duration;

use coracle_core::{ExecId, Result, SandboxId};
use coracle_wire::{Chunk, Stream};

use super::{Captured, ExecRequest, Started, Stdin, image};
use crate::gate::Inside;
use crate::guest::{Capture, FOR_EVER, Launch};
use crate::ops::sandbox::exec;
use crate::progress::Progress;
use crate::random::random;
use crate::{Caller, Engine, Operation, crash, rejoin, spans};

impl Engine {
    /// Starts a command and returns at once. With `Stdin::Bytes` the input is written before it returns.
    pub fn exec_start(&self, caller: &Caller, sandbox: &SandboxId, request: &ExecRequest) -> Result<Started> {
        spans::within(spans::operation(exec::Input::NAME, caller), || {
            self.start_in(&mut self.enter(caller, sandbox)?, request)
        })
    }

    /// Runs a command to its end.
    pub fn exec(&self, caller: &Caller, sandbox: &SandboxId, request: &ExecRequest) -> Result<Captured> {
        spans::within(spans::operation(exec::Input::NAME, caller), || {
            self.exec_in(&mut self.enter(caller, sandbox)?, request)
        })
    }

    pub(crate) fn start_in(&self, inside: &mut Inside, request: &ExecRequest) -> Result<Started> {
        let exec_id = self.exec_id(request)?;
        spans::within(spans::start(&inside.record, &exec_id), || self.start_as(inside, request, exec_id))
    }

    fn start_as(&self, inside: &mut Inside, request: &ExecRequest, exec_id: ExecId) -> Result<Started> {
        let (command, began) = (request.checked(&inside.record, self.policy())?, self.moment()?);
        self.keep(&inside.record)?;
        self.crash_at(crash::EXEC_ADMIT_AFTER);
        let patience = patience(command.deadline_ms, command.grace_ms);
        let started = inside.guest.start(exec_id.as_str(), command);
        let existing =
            started.map_err(|failure| image::explained(failure.into(), &inside.record, &request.argv))?;
        self.crash_at(crash::EXEC_START_AFTER);
        self.tell_started(&inside.record, &exec_id, began);
        match &request.stdin {
            // Whoever started it first has written, or is writing, the input.
            Stdin::Bytes(data) if !existing => inside.guest.feed(exec_id.as_str(), data, patience)?,
            Stdin::Bytes(_) | Stdin::Empty | Stdin::Open => {}
        }
        Ok(Started { exec_id, existing })
    }

    pub(crate) fn exec_in(&self, inside: &mut Inside, request: &ExecRequest) -> Result<Captured> {
        let exec_id = self.exec_id(request)?;
        let span = spans::exec(&inside.record, &exec_id);
        spans::captured(span, || self.exec_as(inside, request, exec_id))
    }

    fn exec_as(&self, inside: &mut Inside, request: &ExecRequest, exec_id: ExecId) -> Result<Captured> {
        let (command, began) = (request.checked(&inside.record, self.policy())?, self.moment()?);
        self.keep(&inside.record)?;
        let _watchman = self.watch_keeper(&inside.record);
        let denied = self.last_denial(&inside.record);
        self.crash_at(crash::EXEC_ADMIT_AFTER);
        let launch = Launch {
            exec: exec_id.as_str(),
            input: match &request.stdin {
                Stdin::Bytes(data) => Some(data),
                Stdin::Empty | Stdin::Open => None,
            },
            patience: patience(command.deadline_ms, command.grace_ms),
            repeatable: request.exec_id.is_some(),
            inline: &self.inline,
            started: &|| {
                spans::started();
                self.crash_at(crash::EXEC_START_AFTER);
                // The command runs meanwhile.
                self.tell_started_soon(&inside.record, &exec_id, began);
            },
        };
        let bound = command.output_bytes;
        let ran = inside.guest.capture(command, launch).map(|capture| match &request.stdin {
            Stdin::Empty => self.capture_again(inside, &exec_id, capture, bound),
            // How much of its input has reached it nobody knows.
            Stdin::Bytes(_) | Stdin::Open => capture,
        });
        let capture =
            ran.map_err(|failure| image::explained(failure.into(), &inside.record, &request.argv))?;
        self.crash_at(crash::EXEC_END_AFTER);
        self.tell_ended_soon(&inside.record, &exec_id, &capture.state);

        let egress_denied = self.denied_since(&inside.record, denied);
        Ok(Captured { egress_denied, ..captured(exec_id, capture) })
    }

    /// Goes on waiting for a command whose end was not seen because the way to its guest broke.
    fn capture_again(&self, inside: &mut Inside, exec: &ExecId, mut capture: Capture, bound: u64) -> Capture {
        for _ in 0..rejoin::TIMES_MAX {
            let lost = capture.state.ending.is_none();
            let found = lost.then(|| self.rejoin(&inside.record, inside.guest.epoch())).flatten();
            let Some(guest) = found else { break };
            inside.guest = guest;
            // A guest that does not know it was never told to start it.
            let Ok(more) = inside.guest.capture_again(exec.as_str(), bound, &self.inline) else { break };
            capture = more;
        }
        capture
    }

    fn exec_id(&self, request: &ExecRequest) -> Result<ExecId> {
        match &request.exec_id {
            Some(id) => Ok(id.clone()),
            None => self.new_exec_id(),
        }
    }

    /// Makes up the id of an exec, for a caller that has to know it before the command runs.
    pub fn new_exec_id(&self) -> Result<ExecId> {
        Ok(ExecId::generate(self.parts.clock.now(), random()?))
    }
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
