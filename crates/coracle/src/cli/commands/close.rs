//! `coracle close`: destroys a sandbox. Closing one that has ended is fine.

use coracle::SandboxId;
use coracle_engine::ops::sandbox::close;

use crate::cli::context::Context;
use crate::cli::exit::Exit;
use crate::cli::stdout;
use crate::cli::stop::Stop;

#[derive(Debug, clap::Args)]
pub struct Args {
    #[arg(value_name = "SBX")]
    sandbox: SandboxId,
    /// Delete the volume the workspace is on, too
    #[arg(long)]
    delete_workspace: bool,
}

pub fn carry_out(context: &Context, args: Args) -> Result<Exit, Stop> {
    let input = close::Input { sandbox_id: args.sandbox, delete_workspace: args.delete_workspace };
    let closed = close::call(&context.engine()?, &context.caller()?, input)?;
    if context.json {
        stdout::json(&closed)?;
    }
    Ok(Exit::SUCCESS)
}
