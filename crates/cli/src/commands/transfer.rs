//! `coracle transfer`: lends a sandbox to another run.

use clap::ValueEnum;
use coracle::RunId;
use coracle_engine::ops::sandbox::transfer;

use super::claim;
use crate::args::SandboxName;
use crate::context::Context;
use crate::exit::Exit;
use crate::stop::Stop;

#[derive(Debug, clap::Args)]
pub struct Args {
    /// Name a sandbox by its id, its key, or the beginning of its id
    #[arg(value_name = "SBX")]
    sandbox: SandboxName,
    /// Lend it to this run, until it releases it
    #[arg(long, value_name = "RUN")]
    to: RunId,
    /// Keep or kill running commands; without this they are a conflict
    #[arg(long, value_name = "WHAT")]
    running: Option<Running>,
}

/// What happens to running commands.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum Running {
    Keep,
    Kill,
}

impl From<Running> for transfer::Running {
    fn from(running: Running) -> Self {
        match running {
            Running::Keep => Self::Keep,
            Running::Kill => Self::Kill,
        }
    }
}

pub fn carry_out(context: &Context, args: Args) -> Result<Exit, Stop> {
    let engine = context.engine()?;
    let sandbox_id = context.sandbox(&engine, &args.sandbox)?;
    let input = transfer::Input { sandbox_id, to: args.to, running: args.running.map(Into::into) };
    claim::tell(context, &engine.perform(context.call()?, input)?)
}
