//! `coracle resume`: lets everything in a paused sandbox go on.

use coracle_engine::ops::sandbox::resume;

use crate::args::SandboxName;
use crate::context::Context;
use crate::exit::Exit;
use crate::stdout;
use crate::stop::Stop;

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
    let done = engine.perform(context.call()?, input)?;
    if context.json {
        stdout::json(&done)?;
    }
    Ok(Exit::SUCCESS)
}
