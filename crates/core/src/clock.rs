//! Time as a port: nothing in the pure rules reads a clock.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Milliseconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Timestamp(u64);

impl Timestamp {
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis)
    }

    pub const fn as_millis(self) -> u64 {
        self.0
    }

    /// Returns the time passed since `earlier`, zero if the clock went backwards.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }
}

/// Tells the time.
pub trait Clock: Send + Sync {
    /// Returns what the machine's clock says. Anybody may set it, forth and back.
    fn now(&self) -> Timestamp;

    /// Returns the time since the machine was started, sleep included. Nobody can set it.
    fn up(&self) -> Duration;
}
