//! `coracle image`: stored images. Coracle pulls what it needs by itself; these verbs do it in advance.

use clap::Subcommand;

use crate::context::Context;
use crate::exit::Exit;
use crate::stop::Stop;

mod build;
pub mod list;
mod load;
mod prepull;
pub mod pull;
mod remove;

#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    verb: Verb,
}

/// The operations on images.
#[derive(Debug, Subcommand)]
enum Verb {
    /// Pull an image from its registry and print it by digest
    Pull(pull::Args),
    /// Pull the images the settings name in `images.prepull`, and print them by digest
    Prepull(prepull::Args),
    /// Build an image from the Dockerfile in a directory and print its name
    Build(build::Args),
    /// Load the images in an archive of `docker save` or an OCI layout, and print their names
    Load(load::Args),
    /// List the stored images
    #[command(visible_alias = "ls")]
    List(list::Args),
    /// Remove an image and the layers that nothing else uses
    #[command(visible_alias = "rm")]
    Remove(remove::Args),
}

pub fn carry_out(context: &Context, args: Args) -> Result<Exit, Stop> {
    match args.verb {
        Verb::Pull(args) => pull::carry_out(context, args),
        Verb::Prepull(args) => prepull::carry_out(context, args),
        Verb::Build(args) => build::carry_out(context, args),
        Verb::Load(args) => load::carry_out(context, args),
        Verb::List(args) => list::carry_out(context, args),
        Verb::Remove(args) => remove::carry_out(context, args),
    }
}
