//! `coracle gc`: brings records and reality together now.

use crate::cli::context::Context;
use crate::cli::exit::Exit;
use crate::cli::stop::Stop;
use crate::cli::{stderr, stdout};

#[derive(Debug, clap::Args)]
pub struct Args {}

/// Exits with 1 if something resisted: it is left for the next time.
pub fn carry_out(context: &Context, Args {}: Args) -> Result<Exit, Stop> {
    let report = context.untouched_engine()?.sweep()?;
    match context.json {
        true => stdout::json(&report)?,
        false => {
            report.trouble.iter().for_each(|trouble| stderr::warning(trouble));
            let removed = report.failed + report.lost + report.finished + report.swept + report.expired;
            stdout::line(&format!(
                "removed {removed}, revived {}, quarantined {}, forgot {}",
                report.revived, report.quarantined, report.forgotten
            ))?;
        }
    }
    Ok(if report.trouble.is_empty() { Exit::SUCCESS } else { Exit::FOUND })
}
