//! `coracle stop`: ends a command and all it started, or every command of a sandbox.

use coracle::{ExecId, Result, SandboxId};
use coracle_engine::Engine;
use coracle_engine::ops::sandbox::exec_stop;
use serde_json::json;

use crate::cli::args::{ExecName, SandboxName, Span, span};
use crate::cli::context::Context;
use crate::cli::exit::Exit;
use crate::cli::stdout;
use crate::cli::stop::Stop;

#[derive(Debug, clap::Args)]
pub struct Args {
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
            let stopped = engine.perform(&context.caller()?, input)?;
            if context.json {
                stdout::json(&stopped)?;
            }
        }
        None => {
            let stopped = stop_all(context, &engine, &sandbox, grace)?;
            if context.json {
                stdout::json(&json!({"stopped": stopped}))?;
            }
        }
    }
    Ok(Exit::SUCCESS)
}

/// Ends every command of a sandbox and returns those that ran.
pub fn stop_all(
    context: &Context,
    engine: &Engine,
    sandbox: &SandboxId,
    grace_ms: Option<u64>,
) -> Result<Vec<ExecId>> {
    let caller = context.caller()?;
    let mut stopped = Vec::new();
    for exec in engine.known_execs(&caller, sandbox)? {
        // One that has ended may have left processes in the background.
        let input = exec_stop::Input { sandbox_id: sandbox.clone(), exec_id: exec.id.clone(), grace_ms };
        engine.perform(&caller, input)?;
        stopped.extend(exec.running.then_some(exec.id));
    }
    Ok(stopped)
}
