//! `sandbox_run`: one command in a sandbox of its own, which is gone afterwards.

use std::collections::BTreeMap;

use coracle_core::image::HOST;
use coracle_core::selection::Refusal;
use coracle_core::spec::{Purpose, Runtime, SpecInput, check_path};
use coracle_core::{Error, Record, Result, SandboxId, Spec};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::exec;
use crate::exec::{Captured, ExecRequest, Secrets, Stdin, Timeout, check_argv, checked_grace, image};
use crate::files::{self, NewFile};
use crate::gate::Inside;
use crate::sessions::Session;
use crate::{Caller, Engine, text};

// About `flatten` with `deny_unknown_fields`, see `sandbox_open`.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// A program in the language of `runtime`, which is `python` if absent.
    #[serde(default)]
    pub code: Option<String>,
    /// Arguments of `code`.
    #[serde(default)]
    pub args: Vec<String>,
    /// A program and its arguments, instead of `code`. Without either the image's own command is run.
    #[serde(default)]
    pub cmd: Option<Vec<String>>,
    /// Files to write before it starts: path and contents.
    #[serde(default)]
    pub files: BTreeMap<String, String>,
    /// The same, with contents in base64.
    #[serde(default)]
    pub files_b64: BTreeMap<String, String>,
    /// The wall time it may take, 5 minutes if absent.
    #[serde(default)]
    pub timeout_seconds: Option<u64>,
    #[serde(default)]
    pub timeout_ms: Option<u64>,
    /// It has no deadline. Refused where the operator has set a maximum.
    #[serde(default)]
    pub no_timeout: Option<bool>,
    #[serde(default)]
    pub grace_ms: Option<u64>,
    #[serde(default)]
    pub stdin: Option<String>,
    #[serde(default)]
    pub stdin_b64: Option<String>,
    /// Where it starts; `code` starts in the workspace if absent, everything else in the sandbox's workdir.
    #[serde(default)]
    pub cwd: Option<String>,
    /// Environment variables that are kept and shown nowhere.
    #[serde(default)]
    pub secrets: Secrets,
    /// The sandbox to run it in; `runtime`, `env` and `user` among it.
    #[serde(flatten)]
    pub spec: SpecInput,
}

#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Output {
    /// The sandbox it ran in, which is gone: events and logs have it by this id.
    pub sandbox_id: SandboxId,
    /// It exited with 0.
    pub ok: bool,
    /// Null where no `code` was given.
    pub runtime: Option<Runtime>,
    /// Why it did not exit by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    pub backend: String,
    /// Backends that were to be used before that one, and why they were not.
    pub refused: Vec<Refusal>,
    #[serde(flatten)]
    pub exec: exec::Output,
}

/// What is to be done in the sandbox, checked before there is one.
struct Plan {
    runtime: Option<Runtime>,
    files: Vec<(NewFile, Vec<u8>)>,
    /// Without a command where the image's own is to be run; which one that is shows when it is here.
    request: ExecRequest,
}

/// Where it is done.
struct Place {
    id: SandboxId,
    backend: String,
    refused: Vec<Refusal>,
}

impl Place {
    fn of(record: &Record) -> Self {
        Self { id: record.id.clone(), backend: record.backend.clone(), refused: record.refused.clone() }
    }
}

pub fn call(engine: &Engine, caller: &Caller, input: Input) -> Result<Output> {
    call_where(engine, caller, input, &|_| Ok(()))
}

/// Does the same for a caller that has to know where, because it may have to end it from outside.
///
/// `placed` is told the sandbox before anything runs in it; if it refuses, nothing does, and the sandbox is removed.
pub fn call_where(
    engine: &Engine,
    caller: &Caller,
    mut input: Input,
    placed: &dyn Fn(&SandboxId) -> Result<()>,
) -> Result<Output> {
    if input.code.is_some() {
        input.spec.runtime.get_or_insert(Runtime::Python);
    }
    let spec = engine.resolve_for(caller, std::mem::take(&mut input.spec), Purpose::OneCommand)?;
    let mut plan = plan(engine, &spec, input)?;
    // Where no program text is run, the language has chosen the image and is of no more use.
    let spec = Spec { runtime: plan.runtime, ..spec };

    let session = engine.open_session(caller, &spec)?;
    let place = Place::of(&session.record);
    let captured = placed(&place.id).and_then(|()| work(engine, session, &mut plan));
    let removed = engine.dismiss(&caller.of_its_own(), &place.id);
    // What the command did is worth more than a complaint about cleaning up, which `gc` will repeat.
    match (captured, removed) {
        (Ok(captured), _) => Ok(output(place, plan.runtime, captured)),
        (Err(error), Ok(())) => Err(error),
        (Err(error), Err(leftover)) => Err(error.detail("not_removed", leftover.chain())),
    }
}

fn work(engine: &Engine, session: Session, plan: &mut Plan) -> Result<Captured> {
    let Session { record, guest, warm, .. } = session;
    if plan.request.argv.is_empty() {
        plan.request.argv = image::command(&record)?;
    }
    let guest = match guest {
        Some(guest) => guest,
        None => engine.reach(&record, record.lease.epoch())?,
    };
    let mut inside = Inside::new(record, guest);
    for (file, contents) in &plan.files {
        files::write(&mut inside, file, &mut contents.as_slice())?;
    }
    let run = warm.map(|exec| engine.exec_warm(&mut inside, exec, &plan.request)).transpose()?.flatten();
    run.map_or_else(|| engine.exec_in(&mut inside, &plan.request), Ok)
}

fn plan(engine: &Engine, spec: &Spec, input: Input) -> Result<Plan> {
    let mut files = all_files(input.files, input.files_b64)?;
    let timeout =
        Timeout::written(input.timeout_seconds, input.timeout_ms, input.no_timeout, Timeout::Usual)?;
    let mut request = ExecRequest {
        cwd: input.cwd,
        secrets: input.secrets,
        timeout,
        grace: checked_grace(input.grace_ms)?,
        stdin: text::decode("stdin", input.stdin, input.stdin_b64)?.map_or(Stdin::Empty, Stdin::Bytes),
        ..ExecRequest::default()
    };
    let bytes = |words: Vec<String>| words.into_iter().map(String::into_bytes).collect();
    let runtime = match (input.cmd, input.code) {
        (Some(_), Some(_)) => return Err(Error::invalid("cmd", "and `code` exclude each other")),
        (_, None) if !input.args.is_empty() => return Err(Error::invalid("args", "belong into `cmd`")),
        (None, None) if spec.runtime.is_some() || spec.image == HOST => {
            return Err(Error::invalid("code", "is missing, and so is `cmd`"));
        }
        (None, None) => None,
        (Some(cmd), None) => {
            request.argv = bytes(cmd);
            check_argv(&request.argv)?;
            None
        }
        (None, Some(code)) => {
            let runtime = spec.runtime.unwrap_or(Runtime::Python);
            request.cwd = request.cwd.or_else(|| spec.workdir.clone());
            let script = request.run_text(runtime, bytes(input.args));
            check_argv(&request.argv)?;
            if files.insert(script.to_owned(), code.into_bytes()).is_some() {
                return Err(Error::invalid("files", format!("holds `{script}`, which is where `code` goes")));
            }
            Some(runtime)
        }
    };
    request.check(engine.policy())?;
    let files = files.into_iter().map(|(path, contents)| (NewFile::at(path), contents)).collect();
    Ok(Plan { runtime, files, request })
}

fn all_files(
    texts: BTreeMap<String, String>,
    binaries: BTreeMap<String, String>,
) -> Result<BTreeMap<String, Vec<u8>>> {
    let mut all = BTreeMap::new();
    let texts = texts.into_iter().map(|(path, text)| (path, Some(text), None));
    let binaries = binaries.into_iter().map(|(path, base64)| (path, None, Some(base64)));
    for (path, text, base64) in texts.chain(binaries) {
        check_path("files", &path)?;
        let contents = text::decode("files", text, base64)?.unwrap_or_default();
        if all.insert(path.clone(), contents).is_some() {
            return Err(Error::invalid(
                "files_b64",
                format!("holds `{}`, as does `files`", path.escape_debug()),
            ));
        }
    }
    Ok(all)
}

/// Returns the answer for a command that came to its end on this backend.
fn output(Place { id, backend, refused }: Place, runtime: Option<Runtime>, captured: Captured) -> Output {
    let rest = captured.gap.as_ref().map(exec::Rest::gone);
    Output {
        sandbox_id: id,
        ok: captured.progress.exit_code == Some(0),
        runtime,
        error: captured.progress.complaint(),
        backend,
        refused,
        exec: exec::Output { rest, ..captured.into() },
    }
}
