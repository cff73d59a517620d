//! `sandbox_run`: one command in a sandbox of its own, which is gone afterwards.

use std::collections::BTreeMap;
use std::io::{Cursor, Read};

use coracle_core::image::HOST;
use coracle_core::selection::Refusal;
use coracle_core::spec::{Purpose, Runtime, SpecInput, check_path};
use coracle_core::{Error, Result, SandboxId, Spec};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::exec;
use crate::catalogue::{Facts, Model, Reach, Scope, Set};
use crate::exec::{ExecRequest, Secrets, Stdin, Timeout, check_argv, checked_grace};
use crate::files::NewFile;
use crate::lifecycle::one_command::{End, OneCommand, OutputTo, Ran};
use crate::{Call, Engine, text};

pub const FACTS: Facts = Facts::destroys(
    "sandbox_run",
    "Run a program in a sandbox of its own",
    "Runs a program or a command in a new sandbox that is gone afterwards",
)
.reaching(Reach::World)
.among(Set::Run)
.for_models(Model::Spec(&["runtime", "code", "args", "env", "files", "timeout_seconds"]))
.within(Scope::Everybody);

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

pub fn call(engine: &Engine, call: &Call, mut input: Input) -> Result<Output> {
    if input.code.is_some() {
        input.spec.runtime.get_or_insert(Runtime::Python);
    }
    let wanted = std::mem::take(&mut input.spec);
    // Everything is checked before there is a sandbox.
    let spec = engine.access().resolve_for(&call.caller, wanted.clone(), Purpose::OneCommand)?;
    let command = OneCommand { spec: wanted, ..plan(engine, &spec, input)? };
    let runtime = command.runtime;
    Ok(output(engine.lifecycle().run_one(call, command)?, runtime))
}

fn plan(engine: &Engine, spec: &Spec, input: Input) -> Result<OneCommand> {
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
    let reader = |contents: Vec<u8>| -> Box<dyn Read + Send> { Box::new(Cursor::new(contents)) };
    let files = files.into_iter().map(|(path, contents)| (NewFile::at(path), reader(contents))).collect();
    Ok(OneCommand {
        spec: SpecInput::default(),
        name: None,
        runtime,
        files,
        request,
        output: OutputTo::Answer,
        pool: None,
    })
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

/// Returns the answer for a command that came to its end.
pub fn output(ran: Ran, runtime: Option<Runtime>) -> Output {
    let Ran { sandbox, backend, refused, end } = ran;
    let (exec, rest) = match end {
        End::Captured(captured) => {
            let rest = captured.gap.as_ref().map(exec::Rest::gone);
            (exec::Output::from(captured), rest)
        }
        End::Watched(watched) => (exec::Output::from(watched), None),
    };
    Output {
        sandbox_id: sandbox,
        ok: exec.progress.exit_code == Some(0),
        runtime,
        error: exec.progress.complaint(),
        backend,
        refused,
        exec: exec::Output { rest, ..exec },
    }
}
