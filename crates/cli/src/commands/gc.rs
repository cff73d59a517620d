//! `coracle gc`: sweeps now, so that records and reality agree.

use coracle_core::bytes::Bytes;
use coracle_core::count::counted;
use coracle_engine::janitor::Report;

use crate::context::Context;
use crate::exit::Exit;
use crate::stop::Stop;
use crate::{stderr, stdout};

#[derive(Debug, clap::Args)]
pub struct Args {}

/// Exits with 1 if something could not be removed: the next sweep tries again.
pub fn carry_out(context: &Context, Args {}: Args) -> Result<Exit, Stop> {
    let report = context.untouched_engine()?.upkeep().gc()?;
    match context.json {
        true => stdout::json(&report)?,
        false => {
            report.trouble.iter().for_each(|trouble| stderr::warning(trouble));
            let removed = report.failed
                + report.expired
                + report.lost
                + report.finished
                + report.swept
                + report.discarded;
            let Report { revived, quarantined, forgotten, .. } = &report;
            let layers = counted(report.layers, "layer", "layers");
            stdout::line(&format!(
                "removed {removed}, revived {revived}, quarantined {quarantined}, forgot {forgotten}, \
                 collected {layers} ({})",
                Bytes(report.layer_bytes)
            ))?;
        }
    }
    Ok(if report.trouble.is_empty() { Exit::SUCCESS } else { Exit::FOUND })
}
