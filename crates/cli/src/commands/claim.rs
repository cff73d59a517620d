//! `coracle claim`: takes a sandbox without an owner, or tells its owner the epoch.

use coracle_engine::ops::sandbox::claim;

use crate::args::SandboxName;
use crate::context::Context;
use crate::exit::Exit;
use crate::stop::Stop;
use crate::{stderr, stdout};

#[derive(Debug, clap::Args)]
pub struct Args {
    /// Name a sandbox by its id, its key, or the beginning of its id
    #[arg(value_name = "SBX")]
    sandbox: SandboxName,
}

pub fn carry_out(context: &Context, args: Args) -> Result<Exit, Stop> {
    let engine = context.engine()?;
    let sandbox_id = context.sandbox(&engine, &args.sandbox)?;
    let input = claim::Input { sandbox_id };
    tell(context, &engine.perform(context.call()?, input)?)
}

/// Prints the epoch after a change of owner; all verbs that change it end here.
pub fn tell(context: &Context, changed: &claim::Output) -> Result<Exit, Stop> {
    match context.json {
        true => stdout::json(changed)?,
        false => {
            changed.note.iter().for_each(|note| stderr::note(note));
            stdout::line(&changed.epoch.0.to_string())?;
        }
    }
    Ok(Exit::SUCCESS)
}
