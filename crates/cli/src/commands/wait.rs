//! `coracle wait`: waits for the end of a command and exits as it did.

use coracle::{Error, ExecId, Kind};
use coracle_engine::ops::sandbox::exec_wait;

use crate::args::{ExecName, SandboxName, Span, span};
use crate::context::Context;
use crate::exit::Exit;
use crate::stdout;
use crate::stop::Stop;

#[derive(Debug, clap::Args)]
pub struct Args {
    /// Name a sandbox by its id, its key, or the beginning of its id
    #[arg(value_name = "SBX")]
    sandbox: SandboxName,
    /// Name a command by its id or the beginning of its id; by default it is that of `run -d`, or the only one
    #[arg(value_name = "EXEC")]
    exec: Option<ExecName>,
    /// Give up after this much time; the command runs on
    #[arg(long, value_name = "TIME", value_parser = span)]
    timeout: Option<Span>,
}

pub fn carry_out(context: &Context, args: Args) -> Result<Exit, Stop> {
    let engine = context.engine()?;
    let sandbox_id = context.sandbox(&engine, &args.sandbox)?;
    let exec_id = context.exec(&engine, &sandbox_id, args.exec.as_ref())?;
    let millis = |span: &Span| u64::try_from(span.duration.as_millis()).unwrap_or(u64::MAX);
    let input = exec_wait::Input {
        sandbox_id,
        exec_id: exec_id.clone(),
        timeout_seconds: None,
        timeout_ms: args.timeout.as_ref().map(millis),
    };
    let waited = engine.perform(context.call()?, input)?;
    match (context.json, waited.done) {
        (true, _) => stdout::json(&waited)?,
        (false, true) => {}
        (false, false) => return Err(still_running(&exec_id).into()),
    }
    Ok(Exit::of_progress(&waited.progress))
}

fn still_running(exec: &ExecId) -> Error {
    Error::new(Kind::Timeout, format!("exec `{exec}` is still running")).hint("wait again, or stop it")
}
