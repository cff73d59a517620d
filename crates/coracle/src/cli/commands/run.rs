//! `coracle run`: one command in a sandbox of its own, which is gone afterwards, however the command ended.

mod detached;
mod plan;

use std::ffi::OsString;
use std::sync::mpsc;

use coracle::{Error, Kind, Result, SandboxId, SessionKey, SpecInput};
use coracle_core::Spec;
use coracle_core::image::{HOST, Reference};
use coracle_core::selection::Refusal;
use coracle_core::spec::Runtime;
use coracle_engine::ops::sandbox::{open, run};
use coracle_engine::{Caller, Engine};

use self::plan::Plan;
use crate::cli::args::{LocalFile, Ports, ProcessArgs, SpecArgs, published};
use crate::cli::context::Context;
use crate::cli::exit::Exit;
use crate::cli::forwarding::{Bound, Route};
use crate::cli::session::{Ran, Session};
use crate::cli::signals::Tie;
use crate::cli::stock::Stock;
use crate::cli::stop::Stop;
use crate::cli::{forwarding, leash, missing, refusals, stderr, stdout};

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

/// Where it was done.
struct Place {
    id: SandboxId,
    backend: String,
    refused: Vec<Refusal>,
}

pub fn carry_out(context: &Context, mut args: Args) -> Result<Exit, Stop> {
    if args.code.is_some() {
        args.spec.runtime.get_or_insert(Runtime::Python);
    }
    if args.detach {
        forwarding::expect_none(&args.publish)?;
    }
    let spec = sandbox(&args)?;
    let plan = Plan::of(&mut args, &spec)?;
    let engine = context.engine()?;
    let resolved = Spec::resolve(spec.clone(), engine.policy())?;
    if plan.request.argv.is_empty() && resolved.image == HOST {
        return Err(nothing_to_run().into());
    }
    let program = plan.request.argv.first().filter(|_| resolved.image == HOST).cloned();
    let wanted = open::Input { session_key: args.name, replace: false, spec };
    let ran = match args.detach {
        true => detached::start(context, &engine, wanted, plan),
        false => {
            let bound = args.publish.into_iter().map(Bound::to).collect::<Result<_>>()?;
            attended(context, engine, Wanted { sandbox: wanted, resolved, bound }, plan)
        }
    };
    match (ran, program) {
        (Err(Stop::Failed(error)), Some(program)) => Err(suggest_image(error, &program).into()),
        (ran, _) => ran,
    }
}

/// Elsewhere the first word is the image. Who writes `run ubuntu` here learns that no such program is there.
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

/// A sandbox for one command, and the ports here that lead to it.
struct Wanted {
    sandbox: open::Input,
    resolved: Spec,
    bound: Vec<Bound>,
}

/// Returns what the sandbox shall be. One that goes with its command is made for one command alone.
fn sandbox(args: &Args) -> Result<SpecInput> {
    let spec = SpecInput { user: args.process.user.clone(), ..args.spec.clone().input()? };
    Ok(match (args.detach, args.rm) {
        (false, _) => spec.for_one_command(),
        (true, true) => detached::removed_soon(spec),
        (true, false) => spec,
    })
}

/// Runs the command to its end, with somebody watching.
fn attended(context: &Context, engine: Engine, wanted: Wanted, mut plan: Plan) -> Result<Exit, Stop> {
    let Wanted { sandbox, resolved, bound } = wanted;
    // From the session on signals wait, and this may take minutes.
    context.bring_image(&engine, &resolved)?;
    let mut session = Session::on(context, engine.clone(), Tie::Bound)?;
    // A new sandbox has an epoch of its own; the caller's is about others.
    let caller = context.caller()?.under(None);
    let mut stock = Stock::of(context, resolved)?;
    let spare = if sandbox.session_key.is_none() { stock.take(&caller) } else { None };
    let opened = match spare {
        Some(record) => open::Output::of_new(record),
        None => open_new(&engine, &caller, sandbox)?,
    };
    let open::Output { sandbox_id: id, backend, refused, missing, .. } = opened;
    // Until the sandbox is gone.
    let (_leash, untied) = match leash::of_sandbox(&engine, &caller, &id) {
        Ok(leash) => (leash, None),
        Err(error) => (None, Some(error)),
    };
    refusals::say(&backend, &refused);

    let ran = match (untied, session.signalled()) {
        (Some(error), _) => Err(error.into()),
        (None, Some(signal)) => Ok(Err(Exit::of_signal(signal))),
        (None, None) => {
            missing::say_once(&missing, &context.config()?.home);
            publish(&engine, &caller, &id, bound);
            work(session.acting_as(caller.clone()), &id, &mut plan).map(Ok)
        }
    };
    if !stock.dismiss(&caller, &id) {
        remove(&engine, &caller, &id);
    }
    match ran? {
        Ok(ran) => finish(plan.runtime, ran, Place { id, backend, refused }),
        Err(exit) => Ok(exit),
    }
}

/// Makes a sandbox nobody had before: what runs in it is the caller's alone.
fn open_new(engine: &Engine, caller: &Caller, wanted: open::Input) -> Result<open::Output> {
    let Some(name) = wanted.session_key.clone() else { return engine.perform(caller, wanted) };
    match engine.perform(caller, wanted) {
        Ok(opened) if !opened.created => Err(taken(&name, opened.sandbox_id.as_str())),
        // That it is another than was asked for does not matter here.
        Err(error) if error.details.contains_key("differences") => {
            let id = error.details.get("sandbox_id").and_then(|id| id.as_str());
            Err(taken(&name, id.unwrap_or_default()))
        }
        opened => opened,
    }
}

fn taken(name: &SessionKey, id: &str) -> Error {
    Error::new(Kind::Conflict, format!("there is a sandbox `{name}` already: `{id}`"))
        .hint(format!("use it with `coracle exec`, or remove it with `coracle rm {id}`"))
        .detail("sandbox_id", id)
}

/// Leads the ports here to the sandbox. If that is gone, the command has ended, and its end is what is told.
fn publish(engine: &Engine, caller: &Caller, sandbox: &SandboxId, bound: Vec<Bound>) {
    for port in bound {
        stderr::note(&format!("`{}` leads to port {} of the sandbox", port.address, port.inside));
        let route = Route { engine: engine.clone(), caller: caller.clone(), sandbox: sandbox.clone() };
        port.lead_to(route, mpsc::channel().0);
    }
}

fn work(session: Session<'_>, id: &SandboxId, plan: &mut Plan) -> Result<Ran, Stop> {
    plan.prepare(session.engine(), session.caller(), id)?;
    session.run(id, std::mem::take(&mut plan.request))
}

/// What the command did is worth more than a complaint about cleaning up, which `gc` repeats.
fn remove(engine: &Engine, caller: &Caller, id: &SandboxId) {
    if let Err(error) = engine.dismiss(caller, id) {
        stderr::warning(&error.chain());
    }
}

fn finish(runtime: Option<Runtime>, ran: Ran, place: Place) -> Result<Exit, Stop> {
    let Place { id, backend, refused } = place;
    let exit = Exit::of_progress(ran.progress());
    if let Ran::Captured(captured) = ran {
        stdout::json(&run::Output {
            sandbox_id: id,
            ok: captured.progress.exit_code == Some(0),
            runtime,
            error: captured.progress.complaint(),
            backend,
            refused,
            exec: captured.into(),
        })?;
    }
    Ok(exit)
}

fn nothing_to_run() -> Error {
    Error::invalid("cmd", "is missing: there is nothing to run")
        .hint("write `coracle run CMD…`, or `coracle run -c CODE` for a program in python")
}
