//! `coracle fork`: makes sandboxes that start with the files of another, and prints their ids.

use coracle_core::SessionKey;
use coracle_engine::ops::sandbox::fork;

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
    /// How many, at most 100 at once
    #[arg(long, value_name = "N")]
    count: Option<usize>,
    /// The name a fork is found again by; once for each
    #[arg(long = "key", value_name = "NAME", visible_alias = "name")]
    keys: Vec<SessionKey>,
    /// Let them write to the directories and volumes the sandbox may write to
    #[arg(long)]
    share_mounts: bool,
}

pub fn carry_out(context: &Context, args: Args) -> Result<Exit, Stop> {
    let engine = context.engine()?;
    let sandbox_id = context.sandbox(&engine, &args.sandbox)?;
    let input = fork::Input {
        sandbox_id,
        count: args.count,
        session_keys: Some(args.keys).filter(|keys| !keys.is_empty()),
        share_mounts: args.share_mounts,
    };
    let forked = engine.perform(context.call()?, input)?;
    let printed = match context.json {
        true => stdout::json(&forked),
        false => forked.sandbox_ids.iter().try_for_each(|id| stdout::line(id.as_str())),
    };
    stdout::or_name(printed, "sandbox", &forked.sandbox_ids)?;
    Ok(Exit::SUCCESS)
}
