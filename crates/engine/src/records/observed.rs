//! The time this home was observed for. Everything that is given up or forgotten after a while goes by it.

use std::sync::{Mutex, PoisonError};

use coracle_core::observed::{Anchor, Moment, Reading};
use coracle_core::{Result, Timestamp};

use super::Records;

/// Where this process counts on from; the store is asked now and then.
#[derive(Debug, Default)]
pub(super) struct Observed(Mutex<Option<Anchor>>);

impl Records {
    /// Returns the time observed until now.
    pub fn observed(&self) -> Result<Timestamp> {
        Ok(self.moment()?.observed)
    }

    /// Returns this moment, by the machine's clock and by observed time.
    pub(crate) fn moment(&self) -> Result<Moment> {
        let clock = &self.clock;
        let reading = Reading { wall: clock.now(), boot: self.boot.clone(), up: clock.up() };
        let mut known = self.observed.0.lock().unwrap_or_else(PoisonError::into_inner);
        let anchor = match known.take().filter(|anchor| !anchor.is_due(&reading)) {
            Some(anchor) => anchor,
            None => self.store.observe(&reading)?,
        };
        let observed = known.insert(anchor).at(&reading);
        Ok(Moment { wall: reading.wall, observed })
    }
}
