//! `coracle image remove`: removes an image. Sandboxes made from it keep the layers they use.

use coracle_core::bytes::Bytes;
use coracle_engine::ops::image::remove;

use crate::context::Context;
use crate::exit::Exit;
use crate::stop::Stop;
use crate::{printable, stderr, stdout};

#[derive(Debug, clap::Args)]
pub struct Args {
    /// The image, by its name or its digest, of which 12 digits are enough
    #[arg(value_name = "IMAGE")]
    name: String,
    /// Remove it from this backend
    #[arg(long, value_name = "NAME")]
    backend: Option<String>,
}

pub fn carry_out(context: &Context, args: Args) -> Result<Exit, Stop> {
    let input = remove::Input { name: args.name, backend: args.backend };
    let removed = context.engine()?.perform(context.call()?, input)?;
    if context.json {
        stdout::json(&removed)?;
        return Ok(Exit::SUCCESS);
    }
    let names = removed.references.iter().map(|name| printable::line(name) + "\n");
    stdout::bytes(names.collect::<String>().as_bytes())?;
    stderr::status(&match removed.layers {
        0 => "Everything of it is still used by other images or sandboxes.".to_owned(),
        1 => format!("Removed 1 layer, {}.", Bytes(removed.bytes)),
        layers => format!("Removed {layers} layers, {}.", Bytes(removed.bytes)),
    });
    Ok(Exit::SUCCESS)
}
