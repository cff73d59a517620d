//! How many clients may read streams at the same time.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use coracle::{Error, Kind, Result};
use coracle_core::TenantId;

/// Each takes one of the guest's 256 connections; the rest is for commands and files.
const EACH_MAX: usize = 64;
/// Fewer than there are, so that one tenant cannot take all.
const TENANT_MAX: usize = 192;
/// Each waits on a thread of the runtime.
const ALL_MAX: usize = 512;

/// The places for readers of streams.
#[derive(Debug, Clone, Default)]
pub struct StreamPlaces(Arc<Mutex<Taken>>);

/// How many are taken: of each sandbox or other source, by each tenant, and in all.
#[derive(Debug, Default)]
struct Taken {
    things: HashMap<String, usize>,
    tenants: HashMap<TenantId, usize>,
    all: usize,
}

/// A taken place. Dropping it releases it.
#[derive(Debug)]
pub struct Seat {
    places: StreamPlaces,
    thing: String,
    tenant: Option<TenantId>,
}

impl StreamPlaces {
    /// Takes a place to read a sandbox or another source, or refuses if there is none.
    pub fn take(&self, thing: &str, tenant: Option<&TenantId>) -> Result<Seat> {
        let mut taken = self.taken();
        let here = taken.things.get(thing).copied().unwrap_or(0);
        let theirs = tenant.and_then(|tenant| taken.tenants.get(tenant)).copied().unwrap_or(0);
        if here >= EACH_MAX || theirs >= TENANT_MAX || taken.all >= ALL_MAX {
            let error =
                Error::new(Kind::LimitExceeded, format!("too many read streams of `{}`", thing.trim()));
            return Err(error.hint("end another stream first, or ask for pages"));
        }
        taken.things.insert(thing.to_owned(), here + 1);
        if let Some(tenant) = tenant {
            taken.tenants.insert(tenant.clone(), theirs + 1);
        }
        taken.all += 1;
        Ok(Seat { places: self.clone(), thing: thing.to_owned(), tenant: tenant.cloned() })
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut taken = self.places.taken();
        leave(&mut taken.things, &self.thing);
        if let Some(tenant) = &self.tenant {
            leave(&mut taken.tenants, tenant);
        }
        taken.all -= 1;
    }
}

/// Decrements a count, and removes it at zero.
fn leave<K: Hash + Eq>(counts: &mut HashMap<K, usize>, key: &K) {
    if let Some(count) = counts.get_mut(key) {
        *count -= 1;
        if *count == 0 {
            counts.remove(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_leaves_makes_room_and_one_sandbox_does_not_take_it_all() {
        let room = StreamPlaces::default();
        let (one, other) = ("sbx_1", "sbx_2");
        let mut seats: Vec<_> = (0..EACH_MAX).map(|_| room.take(one, None).expect("room")).collect();

        assert_eq!(room.take(one, None).map(drop).map_err(|error| error.kind), Err(Kind::LimitExceeded));
        assert!(room.take(other, None).is_ok());
        seats.pop();
        assert!(room.take(one, None).is_ok());
        drop(seats);
        let taken = room.taken();
        assert_eq!((taken.things.len(), taken.all), (0, 0));
    }

    #[test]
    fn one_tenant_does_not_take_it_all() {
        let room = StreamPlaces::default();
        let (one, other): (TenantId, TenantId) =
            ("acme".parse().expect("a name"), "globex".parse().expect("a name"));
        let _seats: Vec<_> = (0..TENANT_MAX)
            .map(|number| room.take(&format!("sbx_{number}"), Some(&one)).expect("room"))
            .collect();

        assert!(room.take("sbx_more", Some(&one)).is_err());
        assert!(room.take("sbx_other", Some(&other)).is_ok());
    }
}
