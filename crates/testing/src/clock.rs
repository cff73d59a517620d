//! A clock that stands still until a test moves it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use coracle_core::clock::{Clock, Timestamp};

/// A clock moved by hand. Clones show the same time.
#[derive(Debug, Clone)]
pub struct ManualClock(Arc<Hands>);

#[derive(Debug)]
struct Hands {
    wall: AtomicU64,
    up: AtomicU64,
}

impl ManualClock {
    pub fn at(now: Timestamp) -> Self {
        Self(Arc::new(Hands { wall: AtomicU64::new(now.as_millis()), up: AtomicU64::new(0) }))
    }

    /// Lets time pass.
    pub fn advance(&self, by: Duration) {
        self.0.wall.fetch_add(by.as_millis() as u64, Ordering::SeqCst);
        self.0.up.fetch_add(by.as_millis() as u64, Ordering::SeqCst);
    }

    /// Sets it, also back, as an administrator would: no time passes.
    pub fn set(&self, now: Timestamp) {
        self.0.wall.store(now.as_millis(), Ordering::SeqCst);
    }
}

impl Default for ManualClock {
    /// Starts in November 2023, far from the edges of time.
    fn default() -> Self {
        Self::at(Timestamp::from_millis(1_700_000_000_000))
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.0.wall.load(Ordering::SeqCst))
    }

    fn up(&self) -> Duration {
        Duration::from_millis(self.0.up.load(Ordering::SeqCst))
    }
}
