//! `coracle ps`: lists sandboxes, whoever owns them.

use std::time::Duration;

use coracle_engine::ops::sandbox::list;

use crate::cli::context::Context;
use crate::cli::exit::Exit;
use crate::cli::stop::Stop;
use crate::cli::table::Columns;
use crate::cli::{stderr, stdout, sweep};

#[derive(Debug, clap::Args)]
pub struct Args {
    /// List those that have ended, too
    #[arg(long, short)]
    all: bool,
}

pub fn carry_out(context: &Context, args: Args) -> Result<Exit, Stop> {
    let engine = context.untouched_engine()?;
    // What is listed as ready shall be so.
    let silent = sweep::glance(&engine, sweep::LISTING);
    let listed = engine.perform(&context.caller()?, list::Input { all: args.all, max: None })?;
    if listed.more {
        stderr::warning("there are older ones, which are left out.");
    }
    let listed = listed.sandboxes;
    for name in silent.iter().filter(|name| listed.iter().any(|sandbox| sandbox.backend == **name)) {
        stderr::warning(&format!(
            "`{name}` does not answer: its sandboxes are listed as they were last seen."
        ));
    }
    if context.json {
        stdout::json(&listed)?;
        return Ok(Exit::SUCCESS);
    }
    let now = context.now();
    let mut table = Columns::new(["SANDBOX", "STATE", "OWNER", "EPOCH", "BACKEND", "IMAGE", "KEY", "AGE"]);
    for sandbox in listed {
        table.row([
            sandbox.sandbox_id.into(),
            sandbox.state.to_string(),
            sandbox.owner.map_or_else(|| "-".to_owned(), Into::into),
            sandbox.epoch.0.to_string(),
            sandbox.backend,
            sandbox.image,
            sandbox.session_key.map_or_else(|| "-".to_owned(), Into::into),
            age(now.since(sandbox.created_at)),
        ]);
    }
    table.print()?;
    Ok(Exit::SUCCESS)
}

/// Returns a span in its largest unit.
pub fn age(span: Duration) -> String {
    match span.as_secs() {
        seconds @ 0..120 => format!("{seconds}s"),
        seconds @ 120..7_200 => format!("{}m", seconds / 60),
        seconds @ 7_200..172_800 => format!("{}h", seconds / 3_600),
        seconds => format!("{}d", seconds / 86_400),
    }
}
