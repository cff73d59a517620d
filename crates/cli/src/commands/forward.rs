//! `coracle forward`: reaches a port of a sandbox from here, on the loopback interface alone, until interrupted.

use std::sync::mpsc;

use serde_json::json;

use crate::args::{Ports, SandboxName};
use crate::context::Context;
use crate::exit::Exit;
use crate::forwarding::{Bound, Route};
use crate::stdout;
use crate::stop::Stop;

#[derive(Debug, clap::Args)]
pub struct Args {
    /// Name a sandbox by its id, its key, or the beginning of its id
    #[arg(value_name = "SBX")]
    sandbox: SandboxName,
    /// Lead LOCAL at 127.0.0.1 to this port of the sandbox; without LOCAL the same number, or a free one if that is taken
    #[arg(value_name = "[LOCAL:]PORT")]
    ports: Ports,
}

pub fn carry_out(context: &Context, args: Args) -> Result<Exit, Stop> {
    let (engine, caller) = (context.engine()?, context.caller()?);
    let sandbox = context.sandbox(&engine, &args.sandbox)?;
    // A caller that may not use the sandbox learns it now and not with the first connection.
    engine.entry().check_entry(&caller, &sandbox)?;
    let bound = Bound::to(args.ports)?;
    let local = bound.address;
    match context.json {
        true => stdout::json(&json!({
            "address": local.ip(), "port": local.port(), "sandbox_port": args.ports.inside,
        }))?,
        false => stdout::line(&local.to_string())?,
    }
    let (ended, end) = mpsc::channel();
    bound.lead_to(Route { engine, caller, sandbox }, ended);
    // Interrupts end the process as usual: there is nothing to clean up.
    match end.recv() {
        Ok(error) => Err(error.into()),
        Err(_) => Ok(Exit::SUCCESS),
    }
}
