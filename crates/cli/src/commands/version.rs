//! `coracle version`: the version of this coracle.

use serde_json::json;

use crate::context::Context;
use crate::exit::Exit;
use crate::stdout;
use crate::stop::Stop;

#[derive(Debug, clap::Args)]
pub struct Args {}

pub fn carry_out(context: &Context, Args {}: Args) -> Result<Exit, Stop> {
    let version = env!("CARGO_PKG_VERSION");
    match context.json {
        true => stdout::json(&json!({"version": version}))?,
        false => stdout::line(&format!("coracle {version}"))?,
    }
    Ok(Exit::SUCCESS)
}
