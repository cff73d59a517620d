//! `coracle volume`: directories that outlive sandboxes. A volume is made when a sandbox first mounts it.

use clap::Subcommand;

use crate::context::Context;
use crate::exit::Exit;
use crate::stop::Stop;

mod list;
mod remove;

#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    verb: Verb,
}

/// The operations on volumes.
#[derive(Debug, Subcommand)]
enum Verb {
    /// List the volumes
    #[command(visible_alias = "ls")]
    List(list::Args),
    /// Remove a volume with its contents
    #[command(visible_alias = "rm")]
    Remove(remove::Args),
}

pub fn carry_out(context: &Context, args: Args) -> Result<Exit, Stop> {
    match args.verb {
        Verb::List(args) => list::carry_out(context, args),
        Verb::Remove(args) => remove::carry_out(context, args),
    }
}
