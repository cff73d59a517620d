//! `coracle resume`: has everything in a paused sandbox go on.

use coracle_engine::ops::sandbox::resume;

use crate::cli::args::SandboxName;
use crate::cli::context::Context;
use crate::cli::exit::Exit;
use crate::cli::stdout;
use crate::cli::stop::Stop;

#[derive(Debug, clap::Args)]
pub struct Args {
    /// Name a sandbox by its id, its key, or the beginning of its id
    #[arg(value_name = "SBX")]
    sandbox: SandboxName,
}

pub fn carry_out(context: &Context, args: Args) -> Result<Exit, Stop> {
    let engine = context.engine()?;
    let sandbox_id = context.sandbox(&engine, &args.sandbox)?;
    let input = resume::Input { sandbox_id };
    let done = engine.perform(&context.caller()?, input)?;
    if context.json {
        stdout::json(&done)?;
    }
    Ok(Exit::SUCCESS)
}
