//! When the sandbox was last used: a request, a running command, or traffic.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The last use. Every thread may record and read it.
#[derive(Debug)]
pub struct Usage {
    started: Instant,
    /// In milliseconds since the start.
    last: AtomicU64,
}

impl Usage {
    pub fn from_now() -> Self {
        Self { started: Instant::now(), last: AtomicU64::new(0) }
    }

    /// Records that the sandbox is in use.
    pub fn touch(&self) {
        // Never moves back: another thread may have read the clock later.
        self.last.fetch_max(self.uptime().as_millis() as u64, Ordering::Relaxed);
    }

    pub fn uptime(&self) -> Duration {
        self.started.elapsed()
    }

    #[cfg(test)]
    pub fn last(&self) -> u64 {
        self.last.load(Ordering::Relaxed)
    }

    /// Returns how long the sandbox was not used.
    pub fn idle(&self) -> Duration {
        self.uptime().saturating_sub(Duration::from_millis(self.last.load(Ordering::Relaxed)))
    }
}
