//! `coracle repo remove`: removes a repository with all that is in it.

use coracle_engine::ops::repo::remove;

use crate::context::Context;
use crate::exit::Exit;
use crate::stdout;
use crate::stop::Stop;

#[derive(Debug, clap::Args)]
pub struct Args {
    /// Its name or id; no sandbox may work on one of its branches
    #[arg(value_name = "REPO")]
    repo: String,
}

pub fn carry_out(context: &Context, args: Args) -> Result<Exit, Stop> {
    let removed = context.engine()?.perform(context.call()?, remove::Input { repo: args.repo })?;
    if context.json {
        stdout::json(&removed)?;
    }
    Ok(Exit::SUCCESS)
}
