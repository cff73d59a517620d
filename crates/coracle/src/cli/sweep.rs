//! The janitor's visits: without a daemon somebody has to come by, so every call looks whether a visit is due.

use std::fs::File;
use std::path::Path;
use std::time::{Duration, SystemTime};

use coracle_engine::Engine;
use coracle_engine::janitor::Report;

use super::stderr;

/// What dead processes leave behind is neither dangerous nor in the way; a minute is soon enough.
const EVERY: Duration = Duration::from_secs(60);

/// Sweeps if nobody has for a while. Never fails: whatever was asked for is more important.
pub fn if_due(engine: &Engine, home: &Path) {
    let stamp = home.join("swept");
    if is_due(&stamp) {
        // Stamped first: of many calls at the same moment one shall sweep.
        touch(&stamp);
        now(engine);
    }
}

/// Sweeps, says what did not work, and returns what was done.
pub fn now(engine: &Engine) -> Option<Report> {
    match engine.sweep() {
        Ok(report) => {
            report
                .trouble
                .iter()
                .for_each(|trouble| stderr::warning(&format!("could not tidy up: {trouble}")));
            Some(report)
        }
        Err(error) => {
            stderr::warning(&format!("could not tidy up: {}", error.chain()));
            None
        }
    }
}

/// A stamp from the future counts as old: the clock was set back, and might be behind it for years.
fn is_due(stamp: &Path) -> bool {
    let swept = stamp.metadata().and_then(|metadata| metadata.modified());
    let age = swept.ok().and_then(|swept| SystemTime::now().duration_since(swept).ok());
    age.is_none_or(|age| age >= EVERY)
}

fn touch(stamp: &Path) {
    let stamped = File::options().create(true).truncate(false).write(true).open(stamp);
    if let Err(error) = stamped.and_then(|file| file.set_modified(SystemTime::now())) {
        stderr::warning(&format!("could not stamp `{}`: {error}", stamp.display()));
    }
}
