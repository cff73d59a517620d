//! Room on the disk of the home: new things are refused when little is left, and freeing works when nothing is.

use std::sync::Arc;

use coracle_core::headroom::{Level, Reserve, Shortage};
use coracle_core::{Result, event};

use crate::ballast::Ballast;
use crate::placement::Placement;
use crate::records::Records;

/// How full the disk of a home may become, and who is told when it does.
#[derive(Debug)]
pub struct Headroom {
    ballast: Ballast,
    reserve: Reserve,
    records: Arc<Records>,
    placement: Arc<Placement>,
}

impl Headroom {
    pub(crate) fn new(
        ballast: Ballast,
        reserve: Reserve,
        records: Arc<Records>,
        placement: Arc<Placement>,
    ) -> Self {
        Self { ballast, reserve, records, placement }
    }

    /// Returns how full the disk of the home is; nothing where that cannot be told.
    pub fn level(&self) -> Option<Level> {
        let disk = self.ballast.disk()?;
        Some(Level::of(disk.left()?, self.reserve, disk.held_back()))
    }

    /// Refuses to make something new where less is left than the reserve. `what` completes "could not".
    pub(crate) fn expect(&self, what: &str) -> Result<()> {
        self.watch().map_or(Ok(()), |level| level.admit(what))
    }

    /// Tells whether less is left than the reserve.
    pub(crate) fn is_low(&self) -> bool {
        self.level().is_some_and(|level| level.low)
    }

    /// Looks at the disk. Tells backends if it became nearly full, and listeners if less is left than the reserve, or if
    /// that is so no more.
    pub(crate) fn watch(&self) -> Option<Level> {
        let disk = self.ballast.disk()?;
        let left = disk.left()?;
        let level = Level::of(left, self.reserve, disk.held_back());
        // A large reserve has it done earlier; without one, what is synced has to be there all the same.
        let nearly_full = level.low || left.is_low();
        if disk.note(Shortage::Room, nearly_full) || nearly_full {
            self.placement.backends().iter().for_each(|backend| backend.brace(nearly_full));
        }
        if disk.note(Shortage::Reserve, level.low)
            && let Ok(moment) = self.records.moment()
        {
            self.records.tell_now(&[event::storage(&level, moment)]);
        }
        Some(level)
    }

    /// Does one step of freeing, with what is held back if there is nothing else. It may be done several times.
    pub(crate) fn freeing<T>(&self, work: impl FnMut() -> Result<T>) -> Result<T> {
        self.ballast.freeing(work)
    }

    /// Looks at the disk once in a while: holds back again what was given way, and tells of a change.
    pub(crate) fn tend(&self) {
        if let Some(disk) = self.ballast.disk() {
            disk.refill();
        }
        self.watch();
    }
}
