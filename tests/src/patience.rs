//! Waiting for something to become true, for so long and no longer.

use std::time::{Duration, Instant};

/// How long to wait for what has to come, on a machine as busy as they get. A test that passes does not wait this long.
pub const SOON: Duration = Duration::from_secs(30);

/// Between two looks: short against everything that is measured here, long against the cost of a look.
const PAUSE: Duration = Duration::from_millis(2);

/// Looks again and again until `holds`, and returns how long it took; `None` if it did not come true within `limit`.
pub fn eventually(limit: Duration, mut holds: impl FnMut() -> bool) -> Option<Duration> {
    let start = Instant::now();
    loop {
        // The time is taken before the look, so that a slow look cannot make the answer late.
        let elapsed = start.elapsed();
        if holds() {
            return Some(elapsed);
        }
        if elapsed > limit {
            return None;
        }
        std::thread::sleep(PAUSE);
    }
}
