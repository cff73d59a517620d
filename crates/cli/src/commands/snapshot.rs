//! `coracle snapshot`: keeps the files of a sandbox as an image and prints its name.

use coracle_engine::ops::sandbox::{get, snapshot};

use crate::args::SandboxName;
use crate::context::Context;
use crate::exit::Exit;
use crate::stop::Stop;
use crate::{stderr, stdout};

#[derive(Debug, clap::Args)]
pub struct Args {
    /// Name a sandbox by its id, its key, or the beginning of its id
    #[arg(value_name = "SBX")]
    sandbox: SandboxName,
}

pub fn carry_out(context: &Context, args: Args) -> Result<Exit, Stop> {
    let engine = context.engine()?;
    let sandbox_id = context.sandbox(&engine, &args.sandbox)?;
    let caller = context.caller()?;
    let kept = engine.perform(&caller, snapshot::Input { sandbox_id: sandbox_id.clone() })?;
    let printed = match context.json {
        true => stdout::json(&kept),
        false => stdout::line(&kept.image),
    };
    stdout::or_name(printed, "image", [&kept.image])?;
    // The files people work on are often mounted.
    let mounts =
        engine.perform(&caller, get::Input { sandbox_id }).map_or_else(|_| Vec::new(), |shown| shown.mounts);
    for mount in mounts {
        stderr::note(&format!("`{}` is mounted, so its files are not in the image", mount.target));
    }
    Ok(Exit::SUCCESS)
}
