//! `coracle network`: narrows what a sandbox may reach.

use coracle::SandboxId;
use coracle_engine::ops::sandbox::network;

use crate::cli::context::Context;
use crate::cli::exit::Exit;
use crate::cli::stdout;
use crate::cli::stop::Stop;

#[derive(Debug, clap::Args)]
pub struct Args {
    #[arg(value_name = "SBX")]
    sandbox: SandboxId,
    /// What it may still reach: none or allow=HOST,…; nothing that it may not reach now
    #[arg(value_name = "NETWORK")]
    network: String,
}

pub fn carry_out(context: &Context, args: Args) -> Result<Exit, Stop> {
    let input = network::Input { sandbox_id: args.sandbox, network: args.network };
    let narrowed = context.engine()?.perform(&context.caller()?, input)?;
    match context.json {
        true => stdout::json(&narrowed)?,
        false => stdout::line(&narrowed.network.to_string())?,
    }
    Ok(Exit::SUCCESS)
}
