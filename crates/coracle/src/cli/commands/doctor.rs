//! `coracle doctor`: what is enforced here, what is not, and why. Changes nothing.

use std::fmt::Write;

use coracle_core::backend::{Probe, Wall};
use coracle_engine::janitor::Orphan;
use serde::Serialize;
use serde_json::json;

use crate::cli::context::Context;
use crate::cli::exit::Exit;
use crate::cli::stop::Stop;
use crate::cli::table::Columns;
use crate::cli::{printable, stderr, stdout};

#[derive(Debug, clap::Args)]
pub struct Args {
    /// List what dead processes left behind, and exit with 1 if there is anything
    #[arg(long)]
    orphans: bool,
}

/// A backend and what it can do here.
#[derive(Serialize)]
struct Finding {
    name: String,
    #[serde(flatten)]
    probe: Probe,
}

pub fn carry_out(context: &Context, args: Args) -> Result<Exit, Stop> {
    match args.orphans {
        true => orphans(context),
        false => walls(context),
    }
}

fn walls(context: &Context) -> Result<Exit, Stop> {
    let engine = context.untouched_engine()?;
    let backends = engine.backends().iter();
    let findings: Vec<_> =
        backends.map(|backend| Finding { name: backend.name().to_owned(), probe: backend.probe() }).collect();
    match context.json {
        true => stdout::json(&json!({"backends": findings}))?,
        false => findings.iter().try_for_each(print)?,
    }
    Ok(if findings.iter().any(|finding| finding.probe.available) { Exit::SUCCESS } else { Exit::FOUND })
}

fn print(finding: &Finding) -> Result<(), Stop> {
    let mut text = match &finding.probe.reason {
        _ if finding.probe.available => format!("{}: available\n", finding.name),
        Some(reason) => format!("{}: not available: {}\n", finding.name, printable::line(reason)),
        None => format!("{}: not available\n", finding.name),
    };
    let width = finding.probe.profile.walls.iter().map(|wall| wall.name.len()).max().unwrap_or_default();
    for Wall { name, enforced, how, hint } in &finding.probe.profile.walls {
        let word = if *enforced { "yes" } else { "NO " };
        // Writing to a string cannot fail.
        let _ = writeln!(text, "  {word}  {name:width$}  {}", printable::line(how));
        if let Some(hint) = hint {
            let _ = writeln!(text, "       {:width$}  hint: {}", "", printable::line(hint));
        }
    }
    stdout::bytes(text.as_bytes())
}

fn orphans(context: &Context) -> Result<Exit, Stop> {
    let left = context.untouched_engine()?.orphans()?;
    match context.json {
        true => stdout::json(&left)?,
        false => list(&left.orphans)?,
    }
    left.trouble.iter().for_each(|trouble| stderr::warning(trouble));
    // Where nobody could look there may be some.
    let clean = left.orphans.is_empty() && left.trouble.is_empty();
    Ok(if clean { Exit::SUCCESS } else { Exit::FOUND })
}

fn list(orphans: &[Orphan]) -> Result<(), Stop> {
    if orphans.is_empty() {
        return stdout::line("no orphans");
    }
    let mut table = Columns::new(["SANDBOX", "BACKEND", "GC WOULD", "LEFT"]);
    for orphan in orphans {
        table.row([
            orphan.sandbox_id.to_string(),
            orphan.backend.clone(),
            orphan.action.to_owned(),
            orphan.objects.join(", "),
        ]);
    }
    table.print()
}
