//! `coracle repo`: hosted repositories, for sandboxes and for any client of git.

use clap::Subcommand;

use crate::context::Context;
use crate::exit::Exit;
use crate::stop::Stop;

mod add;
mod link;
mod list;
mod pull;
mod push;
mod remove;
mod show;

#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    verb: Verb,
}

/// The operations on repositories.
#[derive(Debug, Subcommand)]
enum Verb {
    /// Make a repository and print its id
    Add(add::Args),
    /// List the repositories
    #[command(visible_alias = "ls")]
    List(list::Args),
    /// Bring branches and tags from a server; branches only move forward
    Pull(pull::Args),
    /// Push a branch to a server
    Push(push::Args),
    /// Show a repository, its branches and tags
    Show(show::Args),
    /// Let git find `coracle://NAME`: make the link `git-remote-coracle` in a directory
    Link(link::Args),
    /// Remove a repository with all that is in it
    #[command(visible_alias = "rm")]
    Remove(remove::Args),
}

pub fn carry_out(context: &Context, args: Args) -> Result<Exit, Stop> {
    match args.verb {
        Verb::Add(args) => add::carry_out(context, args),
        Verb::List(args) => list::carry_out(context, args),
        Verb::Pull(args) => pull::carry_out(context, args),
        Verb::Push(args) => push::carry_out(context, args),
        Verb::Show(args) => show::carry_out(context, args),
        Verb::Link(args) => link::carry_out(context, args),
        Verb::Remove(args) => remove::carry_out(context, args),
    }
}
