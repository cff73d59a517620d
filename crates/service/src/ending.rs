//! The calls that end with the daemon: after the drain they are cancelled, and answered.
//!
//! A command that outlives its client is not among them: it goes on, and its client finds it at the next daemon.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use coracle_core::Cancel;
use coracle_core::cancel::Registration;

/// The calls under way that end with the daemon. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct Ending {
    cancel: Cancel,
    calls: Arc<AtomicUsize>,
}

/// A call that ends with the daemon, until this is dropped.
#[derive(Debug)]
pub struct Included {
    calls: Arc<AtomicUsize>,
    _registration: Registration,
}

impl Ending {
    /// Has a call end with the daemon, for as long as the result is held.
    pub fn include(&self, call: &Cancel) -> Included {
        self.calls.fetch_add(1, Ordering::Relaxed);
        let call = call.clone();
        Included { calls: self.calls.clone(), _registration: self.cancel.on_cancel(move || call.cancel()) }
    }

    /// Cancels every call, now and from now on.
    pub fn cancel(&self) {
        self.cancel.cancel();
    }

    /// Tells whether no call is under way.
    pub fn are_none(&self) -> bool {
        self.calls.load(Ordering::Relaxed) == 0
    }
}

impl Drop for Included {
    fn drop(&mut self) {
        self.calls.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_cancelled_while_they_are_included_and_later_ones_at_once() {
        let (ending, [done, running, late]) = (Ending::default(), [(); 3].map(|()| Cancel::default()));
        drop(ending.include(&done));
        let held = ending.include(&running);
        assert!(!ending.are_none());

        ending.cancel();
        let later = ending.include(&late);

        let cancelled = [&done, &running, &late].map(Cancel::is_cancelled);
        assert_eq!(cancelled, [false, true, true]);
        drop((held, later));
        assert!(ending.are_none());
    }
}
