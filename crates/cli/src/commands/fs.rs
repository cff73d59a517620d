//! `coracle fs`: files of a sandbox. Relative paths start at the workspace; absolute ones name the sandbox's own.

use clap::Subcommand;

use crate::context::Context;
use crate::exit::Exit;
use crate::stop::Stop;

mod delete;
mod list;
mod read;
mod rename;
mod stat;
mod write;

#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    verb: Verb,
}

/// The operations on files.
#[derive(Debug, Subcommand)]
enum Verb {
    /// Print a file, byte by byte
    Read(read::Args),
    /// Write standard input to a file
    Write(write::Args),
    /// List a directory
    #[command(visible_alias = "ls")]
    List(list::Args),
    /// Delete a file or directory
    #[command(visible_alias = "rm")]
    Delete(delete::Args),
    /// Show one file or directory
    Stat(stat::Args),
    /// Give a file or directory another name
    Move(rename::Args),
}

pub fn carry_out(context: &Context, args: Args) -> Result<Exit, Stop> {
    match args.verb {
        Verb::Read(args) => read::carry_out(context, args),
        Verb::Write(args) => write::carry_out(context, args),
        Verb::List(args) => list::carry_out(context, args),
        Verb::Delete(args) => delete::carry_out(context, args),
        Verb::Stat(args) => stat::carry_out(context, args),
        Verb::Move(args) => rename::carry_out(context, args),
    }
}
