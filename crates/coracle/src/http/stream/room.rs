//! How many may read streams at the same time.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use coracle::{Error, Kind, Result};

/// Each holds one of the guest's 256 connections; the others are for those who work.
const EACH_MAX: usize = 64;
/// Each waits on a thread of the runtime's.
const ALL_MAX: usize = 512;

/// The places there are.
#[derive(Debug, Clone, Default)]
pub struct Room(Arc<Mutex<HashMap<String, usize>>>);

/// A place that is taken. Dropping it gives it back.
#[derive(Debug)]
pub struct Seat {
    room: Room,
    what: String,
}

impl Room {
    /// Takes a place before a sandbox, or whatever else is read, or says that there is none.
    pub fn take(&self, what: &str) -> Result<Seat> {
        let mut taken = self.taken();
        let all: usize = taken.values().sum();
        let here = taken.get(what).copied().unwrap_or(0);
        if here >= EACH_MAX || all >= ALL_MAX {
            let error = Error::new(Kind::LimitExceeded, format!("too many read streams of `{what}`"));
            return Err(error.hint("end another stream first, or read with `…/output?since_seq=N`"));
        }
        taken.insert(what.to_owned(), here + 1);
        Ok(Seat { room: self.clone(), what: what.to_owned() })
    }

    fn taken(&self) -> MutexGuard<'_, HashMap<String, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut taken = self.room.taken();
        if let Some(here) = taken.get_mut(&self.what) {
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
        let (one, other) = ("sbx_1", "sbx_2");
        let mut seats: Vec<_> = (0..EACH_MAX).map(|_| room.take(one).expect("room")).collect();

        assert_eq!(room.take(one).map(drop).map_err(|error| error.kind), Err(Kind::LimitExceeded));
        assert!(room.take(other).is_ok());
        seats.pop();
        assert!(room.take(one).is_ok());
        drop(seats);
        assert!(room.taken().is_empty());
    }
}
