//! `coracle image pull`: pulls an image, and prints its name by digest, which never changes meaning.

use coracle_core::image::Reference;
use coracle_engine::ops::image::pull;

use crate::context::Context;
use crate::exit::Exit;
use crate::stdout;
use crate::stop::Stop;

#[derive(Debug, clap::Args)]
pub struct Args {
    /// The image, as in python:3.12 or ghcr.io/owner/name@sha256:…
    #[arg(value_name = "IMAGE")]
    reference: String,
    /// Pull it into this backend
    #[arg(long, value_name = "NAME")]
    backend: Option<String>,
}

pub fn carry_out(context: &Context, args: Args) -> Result<Exit, Stop> {
    let input = pull::Input { reference: args.reference, backend: args.backend };
    let pulled = context.engine()?.perform(context.call()?, input)?;
    match context.json {
        true => stdout::json(&pulled)?,
        false => {
            let reference: Reference = pulled.reference.parse()?;
            stdout::line(&format!("{}@{}", reference.name(), pulled.digest))?;
        }
    }
    Ok(Exit::SUCCESS)
}
