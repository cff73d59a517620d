//! Time that is known to have passed. What is destroyed or forgotten after a while goes by it, and never by the machine's
//! clock, which anybody may set and which a dead battery sets to 1970.
//!
//! It is counted for each home, from zero: what passes by the clock of the machine *and* by the time since its start. A
//! clock that jumps adds nothing; neither does the time a machine is off.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::clock::Timestamp;

/// What the machine's clocks say at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reading {
    /// What anybody may set.
    pub wall: Timestamp,
    /// The boot the machine is in.
    pub boot: String,
    /// The time since it began, sleep included. Nobody can set it.
    pub up: Duration,
}

/// A reading, and the time that was observed until then.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Anchor {
    observed_ms: u64,
    wall_ms: u64,
    boot: String,
    up_ms: u64,
}

impl Anchor {
    /// Begins to count.
    pub fn first(reading: &Reading) -> Self {
        Self {
            observed_ms: FIRST_MS,
            wall_ms: reading.wall.as_millis(),
            boot: reading.boot.clone(),
            up_ms: millis(reading.up),
        }
    }

    /// Returns the time observed until a reading; never less than at the anchor. What passed since the anchor is lost when a
    /// clock is set back: at most [`UNCOUNTED_MAX`].
    pub fn at(&self, reading: &Reading) -> Timestamp {
        let by_wall = reading.wall.as_millis().saturating_sub(self.wall_ms);
        let up = millis(reading.up);
        // In another boot at least the time since it began has passed.
        let by_boot = if reading.boot == self.boot { up.saturating_sub(self.up_ms) } else { up };
        Timestamp::from_millis(self.observed_ms.saturating_add(by_wall.min(by_boot)))
    }

    /// Returns the anchor to count on from.
    pub fn moved(&self, reading: &Reading) -> Self {
        Self { observed_ms: self.at(reading).as_millis(), ..Self::first(reading) }
    }

    /// Tells whether it is time to count on from here: a clock that was set back would count nothing until it has caught
    /// up, and what passes in a boot is lost with it.
    pub fn is_due(&self, reading: &Reading) -> bool {
        let passed = millis(reading.up).abs_diff(self.up_ms);
        reading.boot != self.boot
            || reading.wall.as_millis() < self.wall_ms
            || passed >= millis(UNCOUNTED_MAX)
    }
}

/// Where counting begins. Records of older versions have no stamp (0) and so count as ten minutes old at first: not new,
/// and far from any expiry.
const FIRST_MS: u64 = 600_000;

/// How much may go uncounted: the anchor moves at least this often.
pub const UNCOUNTED_MAX: Duration = Duration::from_secs(30);

/// A moment, by the machine's clock for people and by observed time for decisions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    pub wall: Timestamp,
    pub observed: Timestamp,
}

impl Moment {
    /// Returns the moment so long before.
    pub fn before(self, ago: Duration) -> Self {
        let back = |at: Timestamp| Timestamp::from_millis(at.as_millis().saturating_sub(millis(ago)));
        Self { wall: back(self.wall), observed: back(self.observed) }
    }
}

impl From<Timestamp> for Moment {
    /// Takes a clock for one that nobody sets.
    fn from(at: Timestamp) -> Self {
        Self { wall: at, observed: at }
    }
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}
