//! The disk space a home holds back, so that closing, sweeping and purging work when nothing else is left.

use std::fmt;
use std::sync::Arc;

use coracle_core::Result;
use coracle_core::headroom::{self, Disk};

/// What is held back on the disk of a home. Without a disk to look at, nothing is.
#[derive(Clone)]
pub(crate) struct Ballast(Option<Arc<dyn Disk>>);

impl fmt::Debug for Ballast {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Ballast").field(&self.0.is_some()).finish()
    }
}

impl Ballast {
    pub fn on(disk: Option<Arc<dyn Disk>>) -> Self {
        Self(disk)
    }

    /// Returns the disk of the home, if it can be looked at.
    pub fn disk(&self) -> Option<&dyn Disk> {
        self.0.as_deref()
    }

    /// Does one step of freeing, with what is held back if there is nothing else. It may be done several times.
    pub fn freeing<T>(&self, mut work: impl FnMut() -> Result<T>) -> Result<T> {
        match self.disk() {
            Some(disk) => headroom::freeing(disk, work),
            None => work(),
        }
    }
}
