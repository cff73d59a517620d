//! An interpreter that is running before there is anything to run: its start is most of what a short program takes.
//!
//! It is an exec like any other, in a spare, waiting on its standard input to be told what to do. It
//! runs one program and ends with it: no two programs ever share one.

use std::collections::BTreeMap;
use std::time::Duration;

use coracle_core::spec::{Runtime, WORKSPACE};
use coracle_core::{ExecId, Record, Result};
use coracle_wire::{Body, Command};
use serde::Serialize;

use super::Execs;
use super::capture::{captured, patience};
use super::{Captured, ExecRequest, Stdin};
use crate::access::gate::Inside;
use crate::call::{Call, Running};
use crate::guest::{Guest, Launch};
use crate::{crash, spans};

const BOOTSTRAP: &str = include_str!("warm.py");
/// It has to fit into a pipe that may not be read yet, together with what the program is given.
const JOB_MAX: usize = 48 << 10;
/// Settings an interpreter reads when it starts, and not again.
const READ_AT_START: [&str; 4] = ["PYTHON", "LC_", "LANG", "LD_"];

/// What the interpreter is told.
#[derive(Serialize)]
struct Job<'a> {
    env: BTreeMap<&'a str, &'a str>,
    cwd: &'a str,
    argv: Vec<&'a str>,
}

impl Execs {
    /// Starts an interpreter in a spare. It ends by itself after `patience`, in case the spare is never taken.
    pub(crate) fn warm_up(&self, guest: &mut Guest, runtime: Runtime, patience: Duration) -> Option<ExecId> {
        if runtime != Runtime::Python {
            return None;
        }
        let exec = self.new_id().ok()?;
        let (interpreter, _) = runtime.interpreter();
        let command = Command {
            argv: interpreter.iter().chain(&["-c", BOOTSTRAP]).map(|word| word.as_bytes().to_vec()).collect(),
            env: Vec::new(),
            secrets: Vec::new(),
            cwd: Some(WORKSPACE.as_bytes().to_vec()),
            user: None,
            deadline_ms: Some(u64::try_from(patience.as_millis()).unwrap_or(u64::MAX)),
            grace_ms: 0,
            keep_background: false,
            stdin: true,
            terminal: None,
            output_bytes: 0,
            attended: false,
            background_ms: None,
            tied: None,
        };
        guest.start(exec.as_str(), command).ok().map(|_| exec)
    }

    /// Runs a program in an interpreter that waits for one; nothing if this program needs one of its own.
    pub(crate) fn run_warm(
        &self,
        call: &Call,
        inside: &mut Inside,
        exec_id: ExecId,
        request: &ExecRequest,
    ) -> Result<Option<Captured>> {
        let Some(input) = input(&inside.record, request) else {
            // It would be in the way: a process the caller did not start, holding memory of theirs.
            inside.guest.stop(exec_id.as_str(), Some(Duration::ZERO))?;
            return Ok(None);
        };
        call.observer.started(&Running { sandbox: &inside.record.id, exec: &exec_id, existing: false })?;
        let span = spans::exec(&inside.record, &exec_id);
        spans::captured(span, || self.run_begun(inside, exec_id, request, &input)).map(Some)
    }

    fn run_begun(
        &self,
        inside: &mut Inside,
        exec_id: ExecId,
        request: &ExecRequest,
        input: &[u8],
    ) -> Result<Captured> {
        let command = request.checked(&inside.record, &self.policy)?;
        let _proxy_watch = self.egress.watch_keeper(&inside.record);
        self.records.crash_at(crash::EXEC_ADMIT_AFTER);
        let renewed = Body::Renew {
            exec: exec_id.as_str().to_owned(),
            deadline_ms: command.deadline_ms.unwrap_or(u64::MAX),
            grace_ms: command.grace_ms,
            output_bytes: command.output_bytes,
        };
        self.tell_started_soon(&inside.record, &exec_id, self.records.moment()?);
        let launch = Launch {
            exec: exec_id.as_str(),
            input: None,
            patience: patience(command.deadline_ms, command.grace_ms),
            repeatable: false,
            inline: &self.inline,
            started: &|_| {},
        };
        let capture = inside.guest.capture_begun(launch, renewed, input, command.output_bytes)?;
        self.records.crash_at(crash::EXEC_END_AFTER);
        self.tell_ended_soon(&inside.record, &exec_id, &capture.state);
        Ok(captured(exec_id, capture))
    }
}

/// Tells whether this is an interpreter that waits, or waited, for a program. No caller started it.
pub(crate) fn is_waiting_interpreter(argv: &[Vec<u8>]) -> bool {
    argv.last().is_some_and(|word| word == BOOTSTRAP.as_bytes())
}

/// Returns what to write to the interpreter, if it can run this.
fn input(record: &Record, request: &ExecRequest) -> Option<Vec<u8>> {
    let stdin: &[u8] = match &request.stdin {
        Stdin::Empty => &[],
        Stdin::Bytes(bytes) => bytes,
        Stdin::Open => return None,
    };
    let ordinary = request.user.is_none() && record.user().is_none() && request.terminal.is_none();
    if !ordinary || request.keep_background || request.exec_id.is_some() {
        return None;
    }
    let given = record.spec.env.iter().chain(&request.env).chain(&request.secrets.0);
    let env: BTreeMap<_, _> = given.map(|(name, value)| (name.as_str(), value.as_str())).collect();
    if env.keys().any(|name| READ_AT_START.iter().any(|start| name.starts_with(start))) {
        return None;
    }
    let cwd = request.cwd.as_deref().filter(|cwd| cwd.starts_with('/'))?;
    let argv =
        request.argv.iter().skip(1).map(|word| std::str::from_utf8(word).ok()).collect::<Option<_>>()?;
    let job = serde_json::to_vec(&Job { env, cwd, argv }).ok()?;
    let whole = [format!("{:08x}", job.len()).as_bytes(), &job, stdin].concat();
    (whole.len() <= JOB_MAX).then_some(whole)
}
