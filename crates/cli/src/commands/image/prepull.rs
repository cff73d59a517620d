//! `coracle image prepull`: pulls the images the settings name, and prints their names by digest, which never change
//! meaning.

use coracle_core::image::Reference;
use coracle_engine::ops::image::prepull;

use crate::context::Context;
use crate::exit::Exit;
use crate::stop::Stop;
use crate::{stderr, stdout};

#[derive(Debug, clap::Args)]
pub struct Args {
    /// Pull them into this backend
    #[arg(long, value_name = "NAME")]
    backend: Option<String>,
}

pub fn carry_out(context: &Context, args: Args) -> Result<Exit, Stop> {
    let input = prepull::Input { backend: args.backend };
    let brought = context.engine()?.perform(context.call()?, input)?;
    let exit = match brought.failed.is_empty() {
        true => Exit::SUCCESS,
        false => Exit::FAILED,
    };
    if context.json {
        stdout::json(&brought)?;
        return Ok(exit);
    }
    for stored in &brought.images {
        let reference: Reference = stored.reference.parse()?;
        stdout::line(&format!("{}@{}", reference.name(), stored.digest))?;
    }
    context.clear_bars();
    for failed in &brought.failed {
        stderr::warning(&format!("`{}` did not come: {}", failed.image, failed.message));
    }
    if brought.images.is_empty() && brought.failed.is_empty() {
        stderr::note("the settings name no image in `images.prepull`");
    }
    Ok(exit)
}
