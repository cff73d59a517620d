//! `coracle release`: gives a sandbox back to the run that lent it; without a lender it has no owner afterwards.

use coracle_engine::ops::sandbox::release;

use super::claim;
use super::transfer::Running;
use crate::args::SandboxName;
use crate::context::Context;
use crate::exit::Exit;
use crate::stop::Stop;

#[derive(Debug, clap::Args)]
pub struct Args {
    /// Name a sandbox by its id, its key, or the beginning of its id
    #[arg(value_name = "SBX")]
    sandbox: SandboxName,
    /// Keep or kill running commands; kept by default
    #[arg(long, value_name = "WHAT")]
    running: Option<Running>,
}

pub fn carry_out(context: &Context, args: Args) -> Result<Exit, Stop> {
    let engine = context.engine()?;
    let sandbox_id = context.sandbox(&engine, &args.sandbox)?;
    let input = release::Input { sandbox_id, running: args.running.map(Into::into) };
    claim::tell(context, &engine.perform(context.call()?, input)?)
}
