//! `sandbox_exec`: runs a command, to its end or with `stream` in the background.

use std::collections::BTreeMap;

use coracle_core::network::Denial;
use coracle_core::{Error, ExecId, Result, SandboxId};
use coracle_wire::Terminal;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::catalogue::{Facts, Model, Reach, Repeat, Scope, Set};
use crate::exec::progress::Progress;
use crate::exec::{Captured, ExecRequest, Secrets, Stdin, Timeout, Watched, checked_grace};
use crate::guest::Gap;
use crate::text::{self, TextOrBase64};
use crate::{Call, Engine};

pub const FACTS: Facts = Facts::destroys(
    "sandbox_exec",
    "Run a command",
    "Runs a command in a sandbox, to its end or in the background",
)
// Asking twice under one id starts one command.
.repeats(Repeat::If(|input| !input["exec_id"].is_null()))
.reaching(Reach::World)
.for_models(Model::Fields(&["sandbox_id", "cmd", "cwd", "env", "timeout_seconds", "stream"]))
.among(Set::Code)
.outliving_its_client()
.within(Scope::Everybody)
.waking();

#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Input {
    pub sandbox_id: SandboxId,
    /// The program and its arguments; no shell reads them.
    pub cmd: Vec<String>,
    /// Where it starts; the sandbox's workdir if absent.
    #[serde(default)]
    pub cwd: Option<String>,
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// Like `env`, but kept and shown nowhere.
    #[serde(default)]
    pub secrets: Secrets,
    /// The wall time it may take: 5 minutes if absent, and with `stream` as long as it wants.
    #[serde(default)]
    pub timeout_seconds: Option<u64>,
    #[serde(default)]
    pub timeout_ms: Option<u64>,
    /// It has no deadline. Refused where the operator has set a maximum.
    #[serde(default)]
    pub no_timeout: Option<bool>,
    /// Returns at once; output and end come by `sandbox_exec_read` and `sandbox_exec_wait`.
    #[serde(default)]
    pub stream: bool,
    /// Chosen by the caller: asking twice with one id starts one command.
    #[serde(default)]
    pub exec_id: Option<ExecId>,
    #[serde(default)]
    pub stdin: Option<String>,
    #[serde(default)]
    pub stdin_b64: Option<String>,
    /// Standard input stays open for `sandbox_exec_write`. Needs `stream`.
    #[serde(default)]
    pub stdin_open: bool,
    /// A user of the sandbox, by name or number; the image's if absent.
    #[serde(default)]
    pub user: Option<String>,
    /// Processes that outlive the command stay.
    #[serde(default)]
    pub keep_background: bool,
    /// Between TERM and KILL when the time is up.
    #[serde(default)]
    pub grace_ms: Option<u64>,
    /// Gives the command a terminal of this size.
    #[serde(default)]
    pub tty: Option<Tty>,
    /// The life of the sandbox it is meant for (`life` of `sandbox_get`): a later one refuses to start it. Any if absent.
    #[serde(default)]
    pub life: Option<u32>,
}

/// The size of a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Tty {
    pub rows: u16,
    pub columns: u16,
}

#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Output {
    pub exec_id: ExecId,
    #[serde(flatten)]
    pub progress: Progress,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stdout: Option<String>,
    /// Instead of `stdout`, where that is not UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stdout_b64: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stderr: Option<String>,
    /// Instead of `stderr`, where that is not UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stderr_b64: Option<String>,
    /// What was kept and is not in this answer, which has the beginning and the end; how to read it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rest: Option<Rest>,
    /// What of the network the sandbox was refused while it ran.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub egress_denied: Vec<Denial>,
}

/// Output that an answer was too short for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Rest {
    pub bytes: u64,
    /// Where it is missing: behind this many bytes of each stream.
    pub stdout_at: u64,
    pub stderr_at: u64,
    /// `sandbox_exec_read` with this `since_seq` returns it, from the beginning of the chunk it begins in; absent where
    /// it is gone with its sandbox.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since_seq: Option<u64>,
    /// The last chunk with something of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until_seq: Option<u64>,
    /// What to do to have it.
    pub hint: String,
}

impl Rest {
    /// Returns what is said of a gap that can be read.
    fn readable(gap: &Gap) -> Self {
        let (since, until) = (gap.from.saturating_sub(1), gap.to);
        let hint = format!(
            "call `sandbox_exec_read` with this `exec_id` and `since_seq` {since}, and on from the last `seq` it \
             returns, up to {until}"
        );
        Self { since_seq: Some(since), until_seq: Some(until), hint, ..Self::gone(gap) }
    }

    /// Returns what is said of a gap whose sandbox is gone.
    pub(super) fn gone(gap: &Gap) -> Self {
        let hint = "it is gone with the sandbox; for output this long use `sandbox_open` and `sandbox_exec`, or have \
                    it written to a file and print less";
        Self {
            bytes: gap.bytes,
            stdout_at: gap.stdout_before,
            stderr_at: gap.stderr_before,
            since_seq: None,
            until_seq: None,
            hint: hint.to_owned(),
        }
    }
}

impl From<Captured> for Output {
    fn from(captured: Captured) -> Self {
        let (stdout, stderr) = (TextOrBase64::from(captured.stdout), TextOrBase64::from(captured.stderr));
        Self {
            exec_id: captured.exec_id,
            progress: captured.progress,
            stdout: stdout.text,
            stdout_b64: stdout.base64,
            stderr: stderr.text,
            stderr_b64: stderr.base64,
            rest: captured.gap.as_ref().map(Rest::readable),
            egress_denied: captured.egress_denied,
        }
    }
}

impl From<Watched> for Output {
    fn from(watched: Watched) -> Self {
        Self {
            exec_id: watched.exec_id,
            progress: watched.progress,
            stdout: None,
            stdout_b64: None,
            stderr: None,
            stderr_b64: None,
            rest: None,
            egress_denied: watched.egress_denied,
        }
    }
}

pub fn call(engine: &Engine, call: &Call, input: Input) -> Result<Output> {
    let (sandbox, stream) = (input.sandbox_id.clone(), input.stream);
    let request = request(input)?;
    request.check(engine.policy())?;
    match stream {
        false => {
            Ok(engine.execs().run_in(call, &mut engine.entry().enter(call, &sandbox)?, &request)?.into())
        }
        true => start(engine, call, &sandbox, &request),
    }
}

fn start(engine: &Engine, call: &Call, sandbox: &SandboxId, request: &ExecRequest) -> Result<Output> {
    let mut inside = engine.entry().enter(call, sandbox)?;
    let started = engine.execs().start_in(call, &mut inside, request)?;
    if let Err(error) = call.cancel.check()
        && !started.existing
    {
        // Its caller is gone and would never learn of it.
        inside.guest.stop(started.exec_id.as_str(), None)?;
        return Err(error);
    }
    let state = inside.guest.wait(started.exec_id.as_str(), std::time::Duration::ZERO)?;
    let progress = Progress::of(&state);
    Ok(Watched { exec_id: started.exec_id, progress, egress_denied: Vec::new() }.into())
}

fn request(input: Input) -> Result<ExecRequest> {
    let unwritten = if input.stream { Timeout::Longest } else { Timeout::Usual };
    let timeout = Timeout::written(input.timeout_seconds, input.timeout_ms, input.no_timeout, unwritten)?;
    let bytes = text::decode("stdin", input.stdin, input.stdin_b64)?;
    Ok(ExecRequest {
        exec_id: input.exec_id,
        argv: input.cmd.into_iter().map(String::into_bytes).collect(),
        cwd: input.cwd,
        env: input.env,
        secrets: input.secrets,
        user: input.user,
        timeout,
        grace: checked_grace(input.grace_ms)?,
        keep_background: input.keep_background,
        stdin: stdin(bytes, input.stdin_open, input.stream)?,
        terminal: input.tty.map(|tty| Terminal { rows: tty.rows, columns: tty.columns }),
        tied: false,
        life: input.life,
    })
}

fn stdin(bytes: Option<Vec<u8>>, open: bool, stream: bool) -> Result<Stdin> {
    match (bytes, open) {
        (Some(_), true) => Err(Error::invalid("stdin_open", "and `stdin` exclude each other")),
        (None, true) if !stream => {
            Err(Error::invalid("stdin_open", "needs `stream`: without it no call can write to it"))
        }
        (None, true) => Ok(Stdin::Open),
        (Some(bytes), false) => Ok(Stdin::Bytes(bytes)),
        (None, false) => Ok(Stdin::Empty),
    }
}
