//! The fence: whoever shows an epoch older than the highest seen is refused, here at the resource itself.

use std::sync::{PoisonError, RwLock, RwLockReadGuard};

use coracle_wire::{Fault, FaultCode};

/// The highest epoch seen. What is being done under it holds the lock for reading, so that raising it waits until
/// nothing of an earlier owner is under way.
#[derive(Debug)]
pub struct Fence(RwLock<u64>);

impl Fence {
    pub fn new(epoch: u64) -> Self {
        Self(RwLock::new(epoch))
    }

    pub fn epoch(&self) -> u64 {
        *self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Admits an operation under `epoch`, for as long as the guard lives. A newer epoch raises the fence.
    pub fn admit(&self, epoch: u64) -> Result<RwLockReadGuard<'_, u64>, Fault> {
        loop {
            let current = self.0.read().unwrap_or_else(PoisonError::into_inner);
            if epoch == *current {
                return Ok(current);
            }
            if epoch < *current {
                let message = format!("the request is from epoch {epoch}, now it is {}", *current);
                return Err(Fault {
                    code: FaultCode::StaleEpoch { current: *current },
                    message,
                    errno: None,
                });
            }
            drop(current);
            let mut raised = self.0.write().unwrap_or_else(PoisonError::into_inner);
            *raised = epoch.max(*raised);
        }
    }
}
