//! Container engines that did not answer: recorded in the home, so that not every call waits to find out.

use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime};

use coracle_core::backend::Silence;

use super::Docker;

/// How long the first record is valid; each further one is valid for twice as long, up to the longest. The first is
/// short: a container engine on a busy machine may just have been slow.
const FIRST: Duration = Duration::from_secs(30);
const LONGEST: Duration = Duration::from_secs(600);

impl Silence for Docker {
    fn is_noted(&self) -> bool {
        is_good(&self.home.silence(&self.client.shown()))
    }

    fn note(&self) {
        let path = self.home.silence(&self.client.shown());
        // Without the record the next call asks again, and waits no longer than this one.
        let _ = fs::write(&path, (count(&path) + 1).to_string());
    }
}

impl Docker {
    /// Removes the record that the container engine did not answer.
    pub(super) fn note_answer(&self) {
        // A record that stays expires by itself.
        let _ = fs::remove_file(self.home.silence(&self.client.shown()));
    }
}

/// A record from the future does not count: the clock was set back.
fn is_good(path: &Path) -> bool {
    let noted = path.metadata().and_then(|metadata| metadata.modified()).ok();
    let age = noted.and_then(|noted| SystemTime::now().duration_since(noted).ok());
    age.is_some_and(|age| age < good_for(count(path)))
}

/// Returns how long the last of so many records in a row is valid.
fn good_for(notes: u32) -> Duration {
    FIRST.saturating_mul(1 << notes.saturating_sub(1).min(10)).min(LONGEST)
}

fn count(path: &Path) -> u32 {
    fs::read_to_string(path).ok().and_then(|text| text.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_note_in_a_row_is_good_for_longer_up_to_a_bound() {
        let seconds: Vec<u64> = [0, 1, 2, 3, 6, 7, u32::MAX].map(|notes| good_for(notes).as_secs()).to_vec();

        assert_eq!(seconds, [30, 30, 60, 120, 600, 600, 600]);
    }
}
