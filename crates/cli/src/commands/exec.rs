//! `coracle exec`: runs a command in an open sandbox and exits as it did.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use coracle::{Error, ExecId, SandboxId};
use coracle_engine::ops::sandbox::exec_wait;
use coracle_engine::{Caller, Engine};
use serde::Serialize;

use crate::args::{ProcessArgs, SandboxName, Variable};
use crate::context::Context;
use crate::exit::Exit;
use crate::session::Session;
use crate::signals::Tie;
use crate::stdout;
use crate::stop::Stop;

// The directory of one command; a sandbox has its own, `--workdir`, where one is made.
#[derive(Debug, clap::Args)]
#[command(mut_arg("cwd", |cwd| cwd.short('w').visible_alias("workdir")))]
pub struct Args {
    /// Name a sandbox by its id, its key, or the beginning of its id
    #[arg(value_name = "SBX")]
    sandbox: SandboxName,
    /// Return at once and print the id of the exec
    #[arg(short, long, conflicts_with_all = ["interactive", "tty"])]
    detach: bool,
    /// Let the command run on when this process is killed or its output is closed; Ctrl-C still reaches the command
    #[arg(long, conflicts_with = "tty")]
    keep_running: bool,
    /// Choose the id of the exec: two requests with one id start one command
    #[arg(long, value_name = "EXEC")]
    id: Option<ExecId>,
    /// Let processes that outlive the command stay
    #[arg(long)]
    keep_background: bool,
    /// Set an environment variable; NAME alone passes yours on, if it is set
    #[arg(short, long, value_name = "NAME[=VALUE]")]
    env: Vec<Variable>,
    #[command(flatten)]
    process: ProcessArgs,
    /// The program and its arguments; no shell reads them, and from CMD on everything is its own
    #[arg(trailing_var_arg = true, required = true, value_name = "CMD")]
    command: Vec<OsString>,
}

pub fn carry_out(context: &Context, args: Args) -> Result<Exit, Stop> {
    let mut request = args.process.request()?;
    request.env.extend(Variable::entries(args.env)?);
    request.argv = args.command.into_iter().map(OsString::into_vec).collect();
    request.exec_id = args.id;
    request.keep_background = args.keep_background;
    let engine = context.engine()?;
    let sandbox = context.sandbox(&engine, &args.sandbox)?;
    if args.detach {
        request.timeout = request.timeout.in_background();
        let caller = context.caller()?;
        let exec = engine.execs().start(&caller, &sandbox, &request)?.exec_id;
        let name = exec.clone();
        let printed = match context.json {
            true => stdout::json(&Detached::of(&engine, &caller, sandbox, exec)?),
            false => stdout::line(exec.as_str()),
        };
        stdout::or_name(printed, "exec", [name])?;
        return Ok(Exit::SUCCESS);
    }
    let tie = match (args.process.tty, args.keep_running) {
        (true, _) => Tie::Terminal,
        (false, true) => Tie::Loose,
        (false, false) => Tie::Client,
    };
    Session::on(context, engine, tie)?.exec(&sandbox, request)
}

/// A command in the background, as it is right after its start: a short one may have ended.
#[derive(Debug, Serialize)]
pub struct Detached {
    sandbox_id: SandboxId,
    exec_id: ExecId,
    #[serde(flatten)]
    progress: exec_wait::Output,
}

impl Detached {
    pub fn of(
        engine: &Engine,
        caller: &Caller,
        sandbox_id: SandboxId,
        exec_id: ExecId,
    ) -> Result<Self, Error> {
        let now = exec_wait::Input {
            sandbox_id: sandbox_id.clone(),
            exec_id: exec_id.clone(),
            timeout_seconds: None,
            // The shortest possible wait.
            timeout_ms: Some(1),
        };
        let progress = engine.perform(caller, now)?;
        Ok(Self { sandbox_id, exec_id, progress })
    }
}
