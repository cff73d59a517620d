//! `coracle stop`: ends a command and all it started.

use coracle_engine::ops::sandbox::exec_stop;

use crate::cli::args::{ExecName, SandboxName, Span, span};
use crate::cli::context::Context;
use crate::cli::exit::Exit;
use crate::cli::stdout;
use crate::cli::stop::Stop;

#[derive(Debug, clap::Args)]
pub struct Args {
    #[arg(value_name = "SBX")]
    sandbox: SandboxName,
    #[arg(value_name = "EXEC")]
    exec: ExecName,
    /// Wait this long between TERM and KILL
    #[arg(long, value_name = "TIME", value_parser = span)]
    grace: Option<Span>,
}

pub fn carry_out(context: &Context, args: Args) -> Result<Exit, Stop> {
    let engine = context.engine()?;
    let sandbox_id = context.sandbox(&engine, &args.sandbox)?;
    let exec_id = context.exec(&engine, &sandbox_id, &args.exec)?;
    let millis = |span: Span| u64::try_from(span.duration.as_millis()).unwrap_or(u64::MAX);
    let input = exec_stop::Input { sandbox_id, exec_id, grace_ms: args.grace.map(millis) };
    let stopped = engine.perform(&context.caller()?, input)?;
    if context.json {
        stdout::json(&stopped)?;
    }
    Ok(Exit::SUCCESS)
}
