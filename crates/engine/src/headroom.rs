//! Room on the disk of the home: new things are refused when little is left, and freeing works when nothing is.

use coracle_core::headroom::{self, Level};
use coracle_core::{Result, event};

use crate::Engine;

impl Engine {
    /// Returns how full the disk of the home is; nothing where that cannot be told.
    pub fn level(&self) -> Option<Level> {
        let disk = self.parts.disk.as_ref()?;
        Some(Level::of(disk.left()?, self.policy().reserve, disk.held_back()))
    }

    /// Refuses to make something new where less is left than the reserve. `what` completes "could not".
    pub(crate) fn expect_headroom(&self, what: &str) -> Result<()> {
        self.watch_level().map_or(Ok(()), |level| level.admit(what))
    }

    /// Tells whether less is left than the reserve.
    pub(crate) fn is_low(&self) -> bool {
        self.level().is_some_and(|level| level.low)
    }

    /// Looks at the disk, and tells backends and listeners if it became nearly full, or is so no more.
    pub(crate) fn watch_level(&self) -> Option<Level> {
        let (level, disk) = (self.level()?, self.parts.disk.as_ref()?);
        let changed = disk.note(level.low);
        if level.low || changed {
            self.backends().iter().for_each(|backend| backend.brace(level.low));
        }
        if changed && let Ok(moment) = self.moment() {
            self.tell_all(&[event::storage(&level, moment)]);
        }
        Some(level)
    }

    /// Does one step of freeing, with what is held back if there is nothing else. It may be done several times.
    pub(crate) fn freeing<T>(&self, mut work: impl FnMut() -> Result<T>) -> Result<T> {
        match &self.parts.disk {
            Some(disk) => headroom::freeing(&**disk, work),
            None => work(),
        }
    }

    /// Looks at the disk once in a while: holds back again what was given way, and tells of a change.
    pub(crate) fn tend_disk(&self) {
        if let Some(disk) = &self.parts.disk {
            disk.refill();
        }
        self.watch_level();
    }
}
