//! `coracle pause`: freezes everything in a sandbox. Its time does not count until it is resumed.

use coracle_engine::ops::sandbox::pause;

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
    let input = pause::Input { sandbox_id };
    let done = engine.perform(context.call()?, input)?;
    if context.json {
        stdout::json(&done)?;
    }
    Ok(Exit::SUCCESS)
}
