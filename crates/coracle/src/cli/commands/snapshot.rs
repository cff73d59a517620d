//! `coracle snapshot`: keeps the files of a sandbox as an image and prints its name.

use coracle_engine::ops::sandbox::snapshot;

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
    let input = snapshot::Input { sandbox_id };
    let kept = engine.perform(&context.caller()?, input)?;
    match context.json {
        true => stdout::json(&kept)?,
        false => stdout::line(&kept.image)?,
    }
    Ok(Exit::SUCCESS)
}
