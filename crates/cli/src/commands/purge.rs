//! `coracle purge`: removes everything of this home: sandboxes of all owners, images, volumes, logs, the home itself.

use std::io::{self, BufRead, Write};

use coracle::{Error, Kind, Result, assemble};
use coracle_core::Home;
use coracle_core::count::counted;
use coracle_engine::purge::Purged;
use serde::Serialize;

use crate::context::Context;
use crate::exit::Exit;
use crate::spare_pool::Line;
use crate::stop::Stop;
use crate::{home_files, stderr, stdout, terminal};

#[derive(Debug, clap::Args)]
pub struct Args {
    /// Do not ask
    #[arg(long)]
    yes: bool,
    /// Give up on this backend if it does not answer, and print what stays there
    #[arg(long, value_name = "ENGINE")]
    forget: Vec<String>,
}

/// What was removed, and what was not.
#[derive(Debug, Default, Serialize)]
struct Report {
    purged: bool,
    sandboxes: usize,
    volumes: usize,
    /// Files in the home that are not coracle's.
    left: Vec<String>,
    /// What stays at container engines that were given up.
    forgotten: Vec<String>,
    trouble: Vec<String>,
}

/// Exits with 1 if something could not be reached: then the home stays, and the next purge goes on.
pub fn carry_out(context: &Context, args: Args) -> Result<Exit, Stop> {
    let home = context.config()?.home.clone();
    if home_files::is_absent(&home)? {
        match context.json {
            true => stdout::json(&Report { purged: true, ..Report::default() })?,
            false => {
                stdout::line(&format!("nothing to remove: there is no home at `{}`", home.path().display()))?
            }
        }
        return Ok(Exit::SUCCESS);
    }
    home_files::expect_home(&home)?;
    if !args.yes {
        confirm(&home)?;
    }
    let _alone = home_files::expect_no_daemon(&home)?;
    if let Some(mut line) = Line::open(&home) {
        // The process that keeps spares removes them, or we do.
        let _ = line.end();
    }
    let Purged { sandboxes, volumes, forgotten, trouble } = remove_everything(context, &args.forget)?;
    let purged = trouble.is_empty();
    let left = if purged { home_files::remove(&home)? } else { Vec::new() };
    tell(context, &Report { purged, sandboxes, volumes, left, forgotten, trouble }, &home)
}

/// Where the records are lost, everything that carries the home's mark is found and removed without them.
fn remove_everything(context: &Context, forget: &[String]) -> Result<Purged> {
    match context.untouched_engine().and_then(|engine| engine.upkeep().purge(forget)) {
        Err(error) if assemble::are_records_lost(&error) => {
            stderr::warning(&format!("the home has lost its records: {}", error.chain()));
            context.engine_without_records()?.upkeep().purge(forget)
        }
        purged => purged,
    }
}

fn tell(context: &Context, report: &Report, home: &Home) -> Result<Exit, Stop> {
    match context.json {
        true => stdout::json(report)?,
        false => {
            report.trouble.iter().for_each(|trouble| stderr::warning(trouble));
            report.forgotten.iter().for_each(|left| stderr::warning(&format!("left behind: {left}")));
            report
                .left
                .iter()
                .for_each(|name| stderr::note(&format!("`{name}` stays: it is not coracle's.")));
            let sandboxes = counted(report.sandboxes as u64, "sandbox", "sandboxes");
            let volumes = counted(report.volumes as u64, "volume", "volumes");
            let home = home.path().display();
            stdout::line(&match report.purged {
                true => format!("removed {sandboxes}, {volumes} and the home `{home}`"),
                false => format!(
                    "removed {sandboxes}; the home `{home}` stays. Fix what is reported above and purge again; \
                     `--forget ENGINE` gives up on a container engine that is gone"
                ),
            })?;
        }
    }
    Ok(if report.purged { Exit::SUCCESS } else { Exit::FOUND })
}

/// Asks the person at the terminal; without a terminal, `--yes` is required.
fn confirm(home: &Home) -> Result<()> {
    let unsure = || {
        Error::new(
            Kind::Invalid,
            format!("refusing to delete `{}` without confirmation", home.path().display()),
        )
        .hint("add `--yes` to remove everything in it, volumes included")
    };
    if !terminal::is_typed_at() {
        return Err(unsure());
    }
    let mut stderr = io::stderr().lock();
    let asked = write!(
        stderr,
        "This removes every sandbox of `{}`, of any owner, all images and volumes, and the home.\nType `yes` to go on: ",
        home.path().display()
    );
    let _ = asked.and_then(|()| stderr.flush());
    let mut answer = String::new();
    let read = io::stdin().lock().read_line(&mut answer);
    match read.is_ok() && answer.trim() == "yes" {
        true => Ok(()),
        false => Err(unsure()),
    }
}
