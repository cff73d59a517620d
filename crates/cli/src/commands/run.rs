//! `coracle run`: one command in a sandbox of its own, which is removed afterwards, however the command ended.

mod detached;
mod plan;

use std::ffi::OsString;

use coracle::{Error, Result, SessionKey, SpecInput};
use coracle_core::Spec;
use coracle_core::image::{HOST, Reference};
use coracle_core::spec::Runtime;
use coracle_engine::ops::sandbox::run;
use coracle_engine::{Engine, OneCommand};

use crate::args::{LocalFile, Ports, ProcessArgs, SpecArgs, published};
use crate::context::Context;
use crate::exit::Exit;
use crate::forwarding::Bound;
use crate::session::{Ended, Session};
use crate::signals::Tie;
use crate::spare_pool::PoolClient;
use crate::stop::Stop;
use crate::{forwarding, stdout};

#[derive(Debug, clap::Args)]
pub struct Args {
    /// Run this program text, python unless --runtime says otherwise; with --runtime and neither this nor CMD, the
    /// text comes from standard input
    #[arg(short, value_name = "CODE")]
    code: Option<String>,
    /// Put a local file into the sandbox first
    #[arg(long, value_name = "PATH=LOCAL")]
    file: Vec<LocalFile>,
    /// Start the command, print the sandbox's id and return; the sandbox stays until it is closed or idle for too long
    #[arg(short, long, conflicts_with_all = ["interactive", "tty"])]
    detach: bool,
    /// Name the sandbox, for as long as it is there; refused if there is one of that name
    #[arg(long, value_name = "NAME", visible_alias = "key")]
    name: Option<SessionKey>,
    /// Reach a port of the sandbox at 127.0.0.1:LOCAL while the command runs; PORT is the same if absent
    #[arg(short, long, value_name = "LOCAL[:PORT]", value_parser = published)]
    publish: Vec<Ports>,
    /// Remove the sandbox when the command has ended, as `run` always does; with -d a minute later
    #[arg(long)]
    rm: bool,
    #[command(flatten)]
    process: ProcessArgs,
    #[command(flatten)]
    spec: SpecArgs,
    /// The program and its arguments, the image's own command if absent; with CODE, the arguments of that. From CMD on
    /// everything is its own
    #[arg(trailing_var_arg = true, value_name = "CMD")]
    command: Vec<OsString>,
}

pub fn carry_out(context: &Context, mut args: Args) -> Result<Exit, Stop> {
    if args.code.is_some() {
        args.spec.runtime.get_or_insert(Runtime::Python);
    }
    if args.detach {
        forwarding::expect_none(&args.publish)?;
    }
    let spec = sandbox(&args)?;
    let command = plan::of(&mut args, spec)?;
    let engine = context.engine()?;
    let resolved = Spec::resolve(command.spec.clone(), engine.policy())?;
    if command.request.argv.is_empty() && resolved.image == HOST {
        return Err(nothing_to_run().into());
    }
    let program = command.request.argv.first().filter(|_| resolved.image == HOST).cloned();
    let ran = match args.detach {
        true => detached::start(context, &engine, command),
        false => {
            let ports = args.publish.into_iter().map(Bound::to).collect::<Result<_>>()?;
            attended(context, engine, command, &resolved, ports)
        }
    };
    match (ran, program) {
        (Err(Stop::Failed(error)), Some(program)) => Err(suggest_image(error, &program).into()),
        (ran, _) => ran,
    }
}

/// Explains a missing program. With other tools the first word is the image, so people write `run ubuntu`.
fn suggest_image(error: Error, program: &[u8]) -> Error {
    let is_missing = error.details.get("exit_code").is_some_and(|code| *code == 127);
    match std::str::from_utf8(program) {
        Ok(name) if is_missing && name.parse::<Reference>().is_ok() => {
            let image = format!("to run a command in the image `{name}`, write `--image {name}`");
            let hint = error.hint.as_ref().map_or_else(|| image.clone(), |hint| format!("{hint}; {image}"));
            error.hint(hint)
        }
        _ => error,
    }
}

/// Returns the spec of the sandbox. A sandbox that ends with its command is made for one command alone.
fn sandbox(args: &Args) -> Result<SpecInput> {
    let spec = SpecInput { user: args.process.user.clone(), ..args.spec.clone().input()? };
    Ok(match (args.detach, args.rm) {
        (false, _) => spec.for_one_command(),
        (true, true) => detached::removed_soon(spec),
        (true, false) => spec,
    })
}

/// Runs the command to its end, with a person watching.
fn attended(
    context: &Context,
    engine: Engine,
    mut command: OneCommand,
    resolved: &Spec,
    ports: Vec<Bound>,
) -> Result<Exit, Stop> {
    // Once the session starts, signals wait; a pull may take minutes.
    context.bring_image(&engine, resolved)?;
    let session = Session::on(context, engine, Tie::Bound)?;
    command.pool = PoolClient::of(context)?;
    let runtime = command.runtime;
    match session.run(command, ports)? {
        Ended::Signalled(exit) => Ok(exit),
        Ended::Ran(ran) => {
            let exit = Exit::of_progress(ran.end.progress());
            if context.json {
                stdout::json(&run::output(*ran, runtime))?;
            }
            Ok(exit)
        }
    }
}

fn nothing_to_run() -> Error {
    Error::invalid("cmd", "is missing: there is nothing to run")
        .hint("write `coracle run CMD…`, or `coracle run -c CODE` for a program in python")
}
