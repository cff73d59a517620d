//! `coracle close`: destroys a sandbox. Closing one that has ended is fine.

use coracle_engine::ops::sandbox::close;

use crate::cli::args::SandboxName;
use crate::cli::context::Context;
use crate::cli::exit::Exit;
use crate::cli::stop::Stop;
use crate::cli::{stderr, stdout};

#[derive(Debug, clap::Args)]
pub struct Args {
    #[arg(value_name = "SBX")]
    sandbox: SandboxName,
    /// Delete the volume the workspace is on, too; a directory of the machine is never deleted
    #[arg(long)]
    delete_workspace: bool,
    /// End the record even if the engine cannot be asked; what is there stays there, and is named
    #[arg(long)]
    forget: bool,
}

pub fn carry_out(context: &Context, args: Args) -> Result<Exit, Stop> {
    let engine = context.engine()?;
    let sandbox_id = context.sandbox(&engine, &args.sandbox)?;
    let Args { delete_workspace, forget, .. } = args;
    let input = close::Input { sandbox_id, delete_workspace, forget };
    let closed = engine.perform(&context.caller()?, input)?;
    match context.json {
        true => stdout::json(&closed)?,
        false => {
            closed.note.iter().for_each(|note| stderr::warning(note));
            closed.left_behind.iter().for_each(|left| stderr::warning(&format!("left behind: {left}")));
        }
    }
    Ok(Exit::SUCCESS)
}
