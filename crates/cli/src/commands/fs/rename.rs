//! `coracle fs move`: renames a file or directory.

use coracle_engine::ops::sandbox::fs_move;

use crate::args::{ActingArgs, SandboxName};
use crate::context::Context;
use crate::exit::Exit;
use crate::stdout;
use crate::stop::Stop;

#[derive(Debug, clap::Args)]
pub struct Args {
    /// Name a sandbox by its id, its key, or the beginning of its id
    #[arg(value_name = "SBX")]
    sandbox: SandboxName,
    from: String,
    to: String,
    /// Replace an existing file at the new name
    #[arg(long)]
    overwrite: bool,
    #[command(flatten)]
    acting: ActingArgs,
}

pub fn carry_out(context: &Context, args: Args) -> Result<Exit, Stop> {
    let engine = context.engine()?;
    let sandbox_id = context.sandbox(&engine, &args.sandbox)?;
    let Args { from, to, overwrite, acting, .. } = args;
    let input = fs_move::Input { sandbox_id, from, to, overwrite, user: acting.user };
    let moved = engine.perform(context.call()?, input)?;
    if context.json {
        stdout::json(&moved)?;
    }
    Ok(Exit::SUCCESS)
}
