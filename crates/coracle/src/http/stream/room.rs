//! How many may read streams at the same time.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use coracle::{Error, Kind, Result, SandboxId};

/// Each holds one of the guest's 256 connections; the others are for those who work.
const SANDBOX_MAX: usize = 64;
/// Each waits on a thread of the runtime's.
const ALL_MAX: usize = 512;

/// The places there are.
#[derive(Debug, Clone, Default)]
pub struct Room(Arc<Mutex<HashMap<SandboxId, usize>>>);

/// A place that is taken. Dropping it gives it back.
#[derive(Debug)]
pub struct Seat {
    room: Room,
    sandbox: SandboxId,
}

impl Room {
    /// Takes a place, or says that there is none.
    pub fn take(&self, sandbox: &SandboxId) -> Result<Seat> {
        let mut taken = self.taken();
        let all: usize = taken.values().sum();
        let here = taken.get(sandbox).copied().unwrap_or(0);
        if here >= SANDBOX_MAX || all >= ALL_MAX {
            let error =
                Error::new(Kind::LimitExceeded, format!("too many read streams of sandbox `{sandbox}`"));
            return Err(error.hint("end another stream first, or read with `…/output?since_seq=N`"));
        }
        taken.insert(sandbox.clone(), here + 1);
        Ok(Seat { room: self.clone(), sandbox: sandbox.clone() })
    }

    fn taken(&self) -> MutexGuard<'_, HashMap<SandboxId, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut taken = self.room.taken();
        if let Some(here) = taken.get_mut(&self.sandbox) {
            *here -= 1;
        }
        taken.retain(|_, here| *here > 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_leaves_makes_room_and_one_sandbox_does_not_take_it_all() {
        let room = Room::default();
        let (one, other) = ("sbx_1".parse().expect("an id"), "sbx_2".parse().expect("an id"));
        let mut seats: Vec<_> = (0..SANDBOX_MAX).map(|_| room.take(&one).expect("room")).collect();

        assert_eq!(room.take(&one).map(drop).map_err(|error| error.kind), Err(Kind::LimitExceeded));
        assert!(room.take(&other).is_ok());
        seats.pop();
        assert!(room.take(&one).is_ok());
        drop(seats);
        assert!(room.taken().is_empty());
    }
}
