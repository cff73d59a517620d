//! `coracle network`: narrows what a sandbox may reach.

use coracle_engine::ops::sandbox::network;

use crate::args::SandboxName;
use crate::context::Context;
use crate::exit::Exit;
use crate::stdout;
use crate::stop::Stop;

#[derive(Debug, clap::Args)]
pub struct Args {
    /// Name a sandbox by its id, its key, or the beginning of its id
    #[arg(value_name = "SBX")]
    sandbox: SandboxName,
    /// What it may still reach: none or allow=HOST,…; nothing that it may not reach now
    #[arg(value_name = "NETWORK")]
    network: String,
}

pub fn carry_out(context: &Context, args: Args) -> Result<Exit, Stop> {
    let engine = context.engine()?;
    let sandbox_id = context.sandbox(&engine, &args.sandbox)?;
    let input = network::Input { sandbox_id, network: args.network };
    let narrowed = engine.perform(context.call()?, input)?;
    match context.json {
        true => stdout::json(&narrowed)?,
        false => stdout::line(&narrowed.network.to_string())?,
    }
    Ok(Exit::SUCCESS)
}
