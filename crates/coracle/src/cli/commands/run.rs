//! `coracle run`: one command in a sandbox of its own, which is gone afterwards, however the command ended.

use std::ffi::OsString;
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStringExt;

use coracle::{Error, Kind, Result, SandboxId, SpecInput};
use coracle_core::Spec;
use coracle_core::image::HOST;
use coracle_core::selection::Refusal;
use coracle_core::spec::Runtime;
use coracle_engine::ops::INPUT_MAX;
use coracle_engine::ops::sandbox::{fs_write, open, run};
use coracle_engine::{Caller, Engine, ExecRequest, NewFile};

use crate::cli::args::{LocalFile, ProcessArgs, SpecArgs};
use crate::cli::context::Context;
use crate::cli::exit::Exit;
use crate::cli::session::{Ran, Session};
use crate::cli::signals::Tie;
use crate::cli::stock::Stock;
use crate::cli::stop::Stop;
use crate::cli::{missing, refusals, stderr, stdout};

#[derive(Debug, clap::Args)]
pub struct Args {
    /// Run this program text, python unless --runtime says otherwise; with --runtime and neither this nor CMD, the
    /// text comes from standard input
    #[arg(short, value_name = "CODE")]
    code: Option<String>,
    /// Put a local file into the sandbox first
    #[arg(long, value_name = "PATH=LOCAL")]
    file: Vec<LocalFile>,
    #[command(flatten)]
    process: ProcessArgs,
    #[command(flatten)]
    spec: SpecArgs,
    /// The program and its arguments, the image's own command if absent; with CODE, the arguments of that. From CMD on
    /// everything is its own
    #[arg(trailing_var_arg = true, value_name = "CMD")]
    command: Vec<OsString>,
}

/// What is to be done in the sandbox, read and checked before there is one.
struct Plan {
    /// Set where program text is run.
    runtime: Option<Runtime>,
    files: Vec<Source>,
    /// Without a command where the image's own is to be run.
    request: ExecRequest,
}

/// A file that goes into the sandbox.
struct Source {
    path: String,
    contents: Box<dyn Read>,
}

pub fn carry_out(context: &Context, mut args: Args) -> Result<Exit, Stop> {
    if args.code.is_some() {
        args.spec.runtime.get_or_insert(Runtime::Python);
    }
    let spec = args.spec.clone().input()?.for_one_command();
    let mut plan = plan(&mut args, &spec)?;
    let engine = context.engine()?;
    let resolved = Spec::resolve(spec.clone(), engine.policy())?;
    if plan.request.argv.is_empty() && resolved.image == HOST {
        return Err(nothing_to_run().into());
    }
    // From the session on signals wait, and this may take minutes.
    context.bring_image(&engine, &resolved)?;
    let mut session = Session::on(context, engine.clone(), Tie::Bound)?;
    // A new sandbox has an epoch of its own; the caller's is about others.
    let caller = context.caller()?.under(None);
    let mut stock = Stock::of(context, resolved)?;
    let opened = match stock.take(&caller) {
        Some(record) => open::Output::of_new(record),
        None => engine.perform(&caller, open::Input { session_key: None, spec })?,
    };
    let open::Output { sandbox_id: id, backend, refused, missing, .. } = opened;
    refusals::say(&backend, &refused);

    let ran = match session.signalled() {
        Some(signal) => Ok(Err(Exit::of_signal(signal))),
        None => {
            missing::say_once(&missing, &context.config()?.home);
            work(session.acting_as(caller.clone()), &id, &mut plan).map(Ok)
        }
    };
    if !stock.dismiss(&caller, &id) {
        remove(&engine, &caller, &id);
    }
    match ran? {
        Ok(ran) => finish(plan.runtime, ran, backend, refused),
        Err(exit) => Ok(exit),
    }
}

fn work(session: Session<'_>, id: &SandboxId, plan: &mut Plan) -> Result<Ran, Stop> {
    if plan.request.argv.is_empty() {
        plan.request.argv = session.engine().image_command(id)?;
    }
    if !plan.files.is_empty() {
        let mut attached = session.engine().attach(session.caller(), id)?;
        for Source { path, contents } in &mut plan.files {
            let file = NewFile { path: path.clone().into_bytes(), mode: fs_write::MODE, overwrite: true };
            attached.write_file(&file, contents)?;
        }
    }
    session.run(id, std::mem::take(&mut plan.request))
}

/// What the command did is worth more than a complaint about cleaning up, which `gc` repeats.
fn remove(engine: &Engine, caller: &Caller, id: &SandboxId) {
    if let Err(error) = engine.dismiss(caller, id) {
        stderr::warning(&error.chain());
    }
}

fn finish(runtime: Option<Runtime>, ran: Ran, backend: String, refused: Vec<Refusal>) -> Result<Exit, Stop> {
    let exit = Exit::of_progress(ran.progress());
    if let Ran::Captured(captured) = ran {
        stdout::json(&run::Output {
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

fn plan(args: &mut Args, spec: &SpecInput) -> Result<Plan> {
    let mut request = args.process.request()?;
    let mut files = Vec::new();
    for LocalFile { path, local } in &args.file {
        let contents = File::open(local).map_err(|error| {
            Error::new(Kind::Invalid, format!("could not open `{}`", local.display())).caused_by(error)
        })?;
        files.push(Source { path: path.clone(), contents: Box::new(contents) });
    }
    let command = std::mem::take(&mut args.command).into_iter().map(OsString::into_vec);
    let Some((runtime, code)) = program_text(args, command.len())? else {
        request.argv = command.collect();
        return Ok(Plan { runtime: None, files, request });
    };
    request.cwd = request.cwd.or_else(|| spec.workdir.clone());
    let script = request.run_text(runtime, command.collect());
    if files.iter().any(|file| file.path == script) {
        return Err(Error::invalid(
            "file",
            format!("puts something at `{script}`, which is where the code goes"),
        ));
    }
    files.push(Source { path: script.to_owned(), contents: Box::new(std::io::Cursor::new(code)) });
    Ok(Plan { runtime: Some(runtime), files, request })
}

/// Returns the text to run and its language, or nothing where a command is to be run.
fn program_text(args: &Args, words: usize) -> Result<Option<(Runtime, Vec<u8>)>> {
    match (&args.code, args.spec.runtime) {
        (Some(code), runtime) => Ok(Some((runtime.unwrap_or(Runtime::Python), code.clone().into_bytes()))),
        (None, _) if words > 0 => Ok(None),
        (None, Some(_)) if args.process.interactive => {
            Err(Error::invalid("interactive", "is not possible while the code comes from standard input")
                .hint("give the code with `-c CODE`"))
        }
        (None, Some(runtime)) => Ok(Some((runtime, read_code()?))),
        (None, None) => Ok(None),
    }
}

fn nothing_to_run() -> Error {
    Error::invalid("cmd", "is missing: there is nothing to run")
        .hint("write `coracle run -- CMD…`, or `coracle run --runtime python -c CODE`")
}

fn read_code() -> Result<Vec<u8>> {
    let mut code = Vec::new();
    let read = std::io::stdin().lock().take(INPUT_MAX as u64 + 1).read_to_end(&mut code);
    match read {
        Ok(length) if length > INPUT_MAX => {
            Err(Error::invalid("code", format!("has more than {INPUT_MAX} bytes")))
        }
        Ok(_) => Ok(code),
        Err(error) => Err(Error::internal("could not read code from standard input", error)),
    }
}
