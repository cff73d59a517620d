//! `coracle ps`: lists sandboxes of all owners.

mod filter;

use std::time::Duration;

use coracle_core::Timestamp;
use coracle_core::bytes::Bytes;
use coracle_engine::ops::sandbox::list::{self, KeptView};

use self::filter::Filter;
use crate::context::Context;
use crate::exit::Exit;
use crate::stop::Stop;
use crate::table::Columns;
use crate::{stderr, stdout, sweep};

#[derive(Debug, clap::Args)]
pub struct Args {
    /// List those that have ended, too
    #[arg(long, short)]
    all: bool,
    /// Print ids alone
    #[arg(long, short)]
    quiet: bool,
    /// List only those with this id, key, state, image, backend, owner or label; can be repeated
    #[arg(long, short, value_name = "FIELD=VALUE")]
    filter: Vec<Filter>,
}

pub fn carry_out(context: &Context, args: Args) -> Result<Exit, Stop> {
    let engine = context.untouched_engine()?;
    // A sandbox that is listed as ready must be ready.
    let silent = sweep::glance(&engine, sweep::LISTING);
    let all = args.all || args.filter.iter().any(Filter::wants_ended);
    // Filters search all sandboxes.
    let max = (!args.filter.is_empty()).then_some(list::MOST);
    let listed = engine.perform(context.call()?, list::Input { all, max })?;
    if listed.more {
        stderr::warning("there are older ones, which are left out.");
    }
    let mut listed = listed.sandboxes;
    listed.retain(|sandbox| Filter::admit(&args.filter, sandbox));
    for name in silent.iter().filter(|name| listed.iter().any(|sandbox| sandbox.backend == **name)) {
        stderr::warning(&format!(
            "`{name}` does not answer: its sandboxes are listed as they were last seen."
        ));
    }
    if context.json {
        stdout::json(&listed)?;
        return Ok(Exit::SUCCESS);
    }
    if args.quiet {
        return listed
            .iter()
            .try_for_each(|sandbox| stdout::line(sandbox.sandbox_id.as_str()))
            .map(|()| Exit::SUCCESS);
    }
    let now = context.now();
    let mut table = Columns::new([
        "SANDBOX", "STATE", "OWNER", "EPOCH", "BACKEND", "IMAGE", "KEY", "AGE", "SIZE", "ENDS",
    ])
    .spare(&["EPOCH", "BACKEND", "OWNER", "SIZE"]);
    let none_sleeps = listed.iter().all(|sandbox| sandbox.kept.is_none());
    for sandbox in listed {
        let (size, ends) = sleep(sandbox.kept.as_ref(), now);
        table.row([
            sandbox.sandbox_id.into(),
            sandbox.state.to_string(),
            sandbox.owner.map_or_else(|| "-".to_owned(), Into::into),
            sandbox.epoch.0.to_string(),
            sandbox.backend,
            sandbox.image,
            sandbox.session_key.map_or_else(|| "-".to_owned(), Into::into),
            age(now.since(sandbox.created_at)),
            size,
            ends,
        ]);
    }
    if none_sleeps {
        table = table.without("SIZE").without("ENDS");
    }
    table.print()?;
    Ok(Exit::SUCCESS)
}

/// Returns how large the files of a sleeper are and when it ends, in words; dashes for what does not sleep.
pub fn sleep(kept: Option<&KeptView>, now: Timestamp) -> (String, String) {
    let unknown = || "-".to_owned();
    let Some(kept) = kept else { return (unknown(), unknown()) };
    let ends = kept.expires_at.map_or("never".to_owned(), |at| format!("in {}", age(at.since(now))));
    (kept.bytes.map_or_else(unknown, |bytes| Bytes(bytes).to_string()), ends)
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
