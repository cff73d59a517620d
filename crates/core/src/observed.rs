//! Observed time: time that is known to have passed. Retention and removal go by it, and never by the wall clock,
//! which can be set and which a dead battery sets to 1970.
//!
//! Each home counts it from zero: what passes by the wall clock *and* by the time since boot. A jump of the clock
//! adds nothing; neither does the time a machine is off.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::clock::Timestamp;

/// The machine's clocks at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reading {
    /// The wall clock, which can be set.
    pub wall: Timestamp,
    /// The id of the current boot.
    pub boot: String,
    /// The time since boot, sleep included. It cannot be set.
    pub up: Duration,
}

/// A reading, and the time observed until then.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Anchor {
    observed_ms: u64,
    wall_ms: u64,
    boot: String,
    up_ms: u64,
}

impl Anchor {
    /// Starts to count.
    pub fn first(reading: &Reading) -> Self {
        Self {
            observed_ms: FIRST_MS,
            wall_ms: reading.wall.as_millis(),
            boot: reading.boot.clone(),
            up_ms: millis(reading.up),
        }
    }

    /// Returns the time observed until a reading; never less than at the anchor. A clock that is set back loses what
    /// passed since the anchor: at most [`UNCOUNTED_MAX`].
    pub fn at(&self, reading: &Reading) -> Timestamp {
        let by_wall = reading.wall.as_millis().saturating_sub(self.wall_ms);
        let up = millis(reading.up);
        // In a new boot, at least the time since its start has passed.
        let by_boot = if reading.boot == self.boot { up.saturating_sub(self.up_ms) } else { up };
        Timestamp::from_millis(self.observed_ms.saturating_add(by_wall.min(by_boot)))
    }

    /// Returns the anchor to count on from.
    pub fn moved(&self, reading: &Reading) -> Self {
        Self { observed_ms: self.at(reading).as_millis(), ..Self::first(reading) }
    }

    /// Tells whether the anchor must move. After the clock was set back, nothing would count until it has caught up;
    /// and a reboot loses what passed since the anchor.
    pub fn is_due(&self, reading: &Reading) -> bool {
        let passed = millis(reading.up).abs_diff(self.up_ms);
        reading.boot != self.boot
            || reading.wall.as_millis() < self.wall_ms
            || passed >= millis(UNCOUNTED_MAX)
    }
}

/// Where counting starts. Records of older versions have no stamp (0) and so look ten minutes old at first: not new,
/// and far from any expiry.
const FIRST_MS: u64 = 600_000;

/// How much time may go uncounted: the anchor moves at least this often.
pub const UNCOUNTED_MAX: Duration = Duration::from_secs(30);

/// A moment, by the machine's clock for people and by observed time for decisions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Moment {
    pub wall: Timestamp,
    pub observed: Timestamp,
}

impl Moment {
    /// Returns the moment `ago` earlier.
    pub fn before(self, ago: Duration) -> Self {
        let back = |at: Timestamp| Timestamp::from_millis(at.as_millis().saturating_sub(millis(ago)));
        Self { wall: back(self.wall), observed: back(self.observed) }
    }
}

impl From<Timestamp> for Moment {
    /// Takes a clock value as both times; for clocks that are never set.
    fn from(at: Timestamp) -> Self {
        Self { wall: at, observed: at }
    }
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}
