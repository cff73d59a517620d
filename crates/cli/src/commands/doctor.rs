//! `coracle doctor`: which walls stand here, which do not and why, what the `host` image contains, and how full the
//! disk is. Changes nothing.

mod host_image;

use std::fmt::Write;

use coracle::{Error, assemble, config};
use coracle_core::backend::Wall;
use coracle_core::bytes::Bytes;
use coracle_core::headroom::Level;
use coracle_engine::janitor::{Left, Orphan};
use coracle_engine::probes::Probed;
use serde_json::json;

use self::host_image::HostImage;
use crate::context::Context;
use crate::exit::Exit;
use crate::stop::Stop;
use crate::table::Columns;
use crate::{printable, stderr, stdout};

#[derive(Debug, clap::Args)]
pub struct Args {
    /// List what dead processes left behind, and exit with 1 if there is anything
    #[arg(long)]
    orphans: bool,
}

pub fn carry_out(context: &Context, args: Args) -> Result<Exit, Stop> {
    match args.orphans {
        true => orphans(context),
        false => walls(context),
    }
}

fn walls(context: &Context) -> Result<Exit, Stop> {
    let engine = context.untouched_engine()?;
    let (findings, level) = (engine.placement().probe_all(), engine.headroom().level());
    let git = engine.repositories().port().probe();
    let host = HostImage::seen_from(config::directory_of_user().as_deref());
    match context.json {
        true => {
            let repos = match &git {
                Ok(version) => json!({"available": true, "git": version}),
                Err(error) => json!({"available": false, "reason": error.message}),
            };
            let document =
                json!({"backends": findings, "host_image": host, "storage": level, "repos": repos});
            stdout::json(&document)?;
        }
        false => {
            findings.iter().try_for_each(print)?;
            stdout::bytes(host.text().as_bytes())?;
            level.iter().try_for_each(print_level)?;
            print_git(&git)?;
        }
    }
    Ok(if findings.iter().any(|finding| finding.probe.available) { Exit::SUCCESS } else { Exit::FOUND })
}

/// Prints whether repositories can be hosted.
fn print_git(git: &Result<String, Error>) -> Result<(), Stop> {
    let text = match git {
        Ok(version) => format!("repositories: available, git {}\n", printable::line(version)),
        Err(error) => format!("repositories: not available: {}\n", printable::line(&error.message)),
    };
    stdout::bytes(text.as_bytes())
}

/// Prints how full the disk of the home is.
fn print_level(level: &Level) -> Result<(), Stop> {
    let inodes = level.free_inodes.map(|free| format!(", {free} inodes")).unwrap_or_default();
    let (free, total) = (Bytes(level.free_bytes), Bytes(level.total_bytes));
    let mut text = format!("storage: {free} of {total} free{inodes}\n");
    let word = if level.low { "NO " } else { "yes" };
    let reserve = Bytes(level.reserve_bytes);
    let _ = writeln!(text, "  {word}  reserve  nothing new is made with less than {reserve} left");
    if level.low {
        let _ =
            writeln!(text, "       hint: close sandboxes, remove images and volumes, or run `coracle gc`");
    }
    let held = level.ballast_bytes;
    let word = if held > 0 { "yes" } else { "NO " };
    let _ =
        writeln!(text, "  {word}  ballast  {} held back, to free things when nothing is left", Bytes(held));
    stdout::bytes(text.as_bytes())
}

fn print(finding: &Probed) -> Result<(), Stop> {
    let of = |what: &Option<String>| what.as_ref().map(|what| format!(", {}", printable::line(what)));
    let place = [of(&finding.probe.version), of(&finding.probe.endpoint)].into_iter().flatten();
    let place: String = place.collect();
    let mut text = match &finding.probe.reason {
        _ if finding.probe.available => format!("{}: available{place}\n", finding.name),
        Some(reason) => format!("{}: not available: {}\n", finding.name, printable::line(reason)),
        None => format!("{}: not available\n", finding.name),
    };
    // The walls of a container engine mean nothing while it is not running.
    if !finding.probe.available && finding.probe.endpoint.is_some() {
        return stdout::bytes(text.as_bytes());
    }
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
    let left = look(context)?;
    match context.json {
        true => stdout::json(&left)?,
        false => list(&left.orphans)?,
    }
    left.remains.iter().chain(&left.trouble).for_each(|left| stderr::warning(left));
    // A backend that could not be examined may have some.
    let clean = left.orphans.is_empty() && left.remains.is_empty() && left.trouble.is_empty();
    Ok(if clean { Exit::SUCCESS } else { Exit::FOUND })
}

/// Where the records are lost, everything that carries the home's mark is an orphan.
fn look(context: &Context) -> Result<Left, Error> {
    match context.untouched_engine().and_then(|engine| engine.upkeep().orphans()) {
        Err(error) if assemble::are_records_lost(&error) => {
            let mut left = context.engine_without_records()?.upkeep().orphans()?;
            left.trouble.push(error.chain());
            Ok(left)
        }
        found => found,
    }
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
