//! `coracle volume remove`: removes a volume with its contents.

use coracle_core::VolumeName;
use coracle_engine::ops::volume::remove;

use crate::context::Context;
use crate::exit::Exit;
use crate::stdout;
use crate::stop::Stop;

#[derive(Debug, clap::Args)]
pub struct Args {
    /// The volume; no sandbox may have it mounted
    #[arg(value_name = "NAME")]
    name: VolumeName,
    /// Remove it from this backend
    #[arg(long, value_name = "NAME")]
    backend: Option<String>,
}

pub fn carry_out(context: &Context, args: Args) -> Result<Exit, Stop> {
    let input = remove::Input { name: args.name, backend: args.backend };
    let removed = context.engine()?.perform(context.call()?, input)?;
    if context.json {
        stdout::json(&removed)?;
    }
    Ok(Exit::SUCCESS)
}
