//! Sweeps without a daemon: every call checks whether a sweep is due. A sweep that the person did not ask for does
//! not wait for container engines; `gc` and the daemon's timer do.

use std::fs::File;
use std::path::Path;
use std::time::{Duration, SystemTime};

use coracle_core::Home;
use coracle_engine::Engine;
use coracle_engine::glance::Glance;
use coracle_engine::janitor::Report;

use super::stderr;

/// What dead processes leave behind is neither dangerous nor in the way; a minute is soon enough.
pub const EVERY: Duration = Duration::from_secs(60);
/// Unused layers cost only space, and looking for them costs time.
pub const LAYERS_EVERY: Duration = Duration::from_secs(3600);

/// How long a container engine that works needs to answer, on a busy machine. After that the call goes on without it.
const MOMENT: Duration = Duration::from_millis(250);
/// The same for `ps`, whose answer depends on it.
pub const LISTING: Duration = Duration::from_secs(1);

/// Sweeps if none was done for a while. Never fails: the call itself is more important.
pub fn if_due(engine: &Engine, home: &Home) {
    if take_turn(&home.swept(), EVERY) {
        glance(engine, MOMENT);
    }
    if take_turn(&home.collected(), LAYERS_EVERY) {
        complain(&engine.upkeep().collect_at_hand());
    }
}

/// Sweeps without waiting for container engines longer than `patience`, and reports what did not work. Returns the
/// backends that did not answer.
pub fn glance(engine: &Engine, patience: Duration) -> Vec<String> {
    match engine.upkeep().glance(patience) {
        Ok(Glance { report, silent }) => {
            complain(&report);
            silent
        }
        Err(error) => {
            stderr::warning(&format!("could not tidy up: {}", error.chain()));
            Vec::new()
        }
    }
}

/// Removes unused layers.
pub fn layers(engine: &Engine) {
    complain(&engine.upkeep().collect());
}

/// Sweeps, reports what did not work, and returns what was done.
pub fn now(engine: &Engine) -> Option<Report> {
    match engine.upkeep().sweep() {
        Ok(report) => {
            complain(&report);
            Some(report)
        }
        Err(error) => {
            stderr::warning(&format!("could not tidy up: {}", error.chain()));
            None
        }
    }
}

fn complain(report: &Report) {
    report.trouble.iter().for_each(|trouble| stderr::warning(&format!("could not tidy up: {trouble}")));
}

/// Tells whether a sweep is due, and if so stamps it as done: of many simultaneous calls one shall do it.
fn take_turn(stamp: &Path, every: Duration) -> bool {
    let due = is_due(stamp, every);
    if due {
        touch(stamp);
    }
    due
}

/// A stamp from the future counts as old: the clock was set back, and might be behind it for years.
fn is_due(stamp: &Path, every: Duration) -> bool {
    let swept = stamp.metadata().and_then(|metadata| metadata.modified());
    let age = swept.ok().and_then(|swept| SystemTime::now().duration_since(swept).ok());
    age.is_none_or(|age| age >= every)
}

fn touch(stamp: &Path) {
    let stamped = File::options().create(true).truncate(false).write(true).open(stamp);
    if let Err(error) = stamped.and_then(|file| file.set_modified(SystemTime::now())) {
        stderr::warning(&format!("could not stamp `{}`: {error}", stamp.display()));
    }
}
