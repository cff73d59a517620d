//! `coracle stop`: ends a command and everything it started, or every command of a sandbox.

use coracle::{Error, ExecId, Kind, Result, SandboxId};
use coracle_engine::Engine;
use coracle_engine::naming::KnownExec;
use coracle_engine::ops::sandbox::exec_stop;
use serde::Serialize;

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
    /// The command, by its id or the beginning of it; all that run if absent
    #[arg(value_name = "EXEC")]
    exec: Option<ExecName>,
    /// Wait this long between TERM and KILL
    #[arg(long, value_name = "TIME", value_parser = span)]
    grace: Option<Span>,
}

pub fn carry_out(context: &Context, args: Args) -> Result<Exit, Stop> {
    let engine = context.engine()?;
    let sandbox = context.sandbox(&engine, &args.sandbox)?;
    let grace = args.grace.map(|span| u64::try_from(span.duration.as_millis()).unwrap_or(u64::MAX));
    match &args.exec {
        Some(name) => {
            let exec_id = context.exec(&engine, &sandbox, Some(name))?;
            let input = exec_stop::Input { sandbox_id: sandbox, exec_id, grace_ms: grace };
            let stopped = engine.perform(context.call()?, input)?;
            if context.json {
                stdout::json(&stopped)?;
            }
        }
        None => {
            let execs = stop_all(context, &engine, &sandbox, grace)?;
            if context.json {
                stdout::json(&Signalled { ok: true, sandbox_id: sandbox, signalled: execs })?;
            }
        }
    }
    Ok(Exit::SUCCESS)
}

/// The result for the commands of a sandbox.
#[derive(Debug, Serialize)]
pub struct Signalled {
    pub ok: bool,
    pub sandbox_id: SandboxId,
    /// Those that were running.
    pub signalled: Vec<ExecId>,
}

/// How many are asked to end at once, each over a connection of its own.
const AT_ONCE: usize = 32;

/// Ends every command of a sandbox and returns those that ran. Their grace periods run at the same time.
pub fn stop_all(
    context: &Context,
    engine: &Engine,
    sandbox: &SandboxId,
    grace_ms: Option<u64>,
) -> Result<Vec<ExecId>> {
    let caller = context.caller()?;
    // An ended exec may have left processes in the background.
    let stop = |exec: &KnownExec| {
        let input = exec_stop::Input { sandbox_id: sandbox.clone(), exec_id: exec.id.clone(), grace_ms };
        engine.perform(&caller, input).map(drop)
    };
    let execs = engine.execs().known(&caller, sandbox)?;
    let mut stopped = Vec::new();
    for some in execs.chunks(AT_ONCE) {
        std::thread::scope(|scope| {
            let begun: Vec<_> = some.iter().map(|exec| scope.spawn(|| stop(exec))).collect();
            stopped.extend(begun.into_iter().map(|thread| thread.join().unwrap_or_else(|_| Err(panicked()))));
        });
    }
    reached(execs, stopped)
}

/// Returns the commands that were running. One that is gone by now has ended by itself; of other errors the first is
/// returned, after every command had its turn.
pub fn reached(execs: Vec<KnownExec>, done: Vec<Result<()>>) -> Result<Vec<ExecId>> {
    let mut ran = Vec::new();
    for (exec, done) in execs.into_iter().zip(done) {
        match done {
            Ok(()) => ran.extend(exec.running.then_some(exec.id)),
            Err(error) if error.kind == Kind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(ran)
}

fn panicked() -> Error {
    Error::new(Kind::Internal, "a thread that stops a command has panicked")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_is_gone_by_now_is_no_failure() {
        let known = |id: &str, running| KnownExec { id: id.parse().expect("an id"), running, command: None };
        let execs = || vec![known("a", true), known("b", true), known("c", false)];
        let gone = || Err(Error::new(Kind::NotFound, "gone"));
        let broken = || Err(Error::new(Kind::NotAvailable, "broken"));

        let ran = reached(execs(), vec![gone(), Ok(()), Ok(())]).expect("they are ended");

        assert_eq!(ran.iter().map(ExecId::as_str).collect::<Vec<_>>(), ["b"]);
        assert!(reached(execs(), vec![gone(), broken(), Ok(())]).is_err());
    }
}
