//! What of the daemon each tenant may have at once: calls that wait on a thread, and memory for what it sends. Without
//! that, one of them could have all of it, and nobody else would be answered.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use axum::http::{HeaderValue, header};
use coracle::{Error, Kind};
use coracle_core::TenantId;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::reply::Refusal;

/// Calls of one tenant that are carried out at the same time.
const CALLS_MAX: usize = 256;
/// The home's own people have nobody to share with but themselves.
const OWN_CALLS_MAX: usize = 1024;
/// What the bodies of one tenant may take together while they are read and carried out.
const BODIES_MAX: usize = 128 << 20;
/// Bodies are counted in pieces of this size.
const PIECE: usize = 64 << 10;

/// The share of each tenant; nobody's is that of the home's own people. As many as there are tenants with a token.
#[derive(Debug, Default)]
pub struct Shares(Mutex<HashMap<Option<TenantId>, Share>>);

/// What one tenant may have.
#[derive(Debug, Clone)]
pub struct Share {
    calls: Arc<Semaphore>,
    bodies: Arc<Semaphore>,
}

/// Something of a share. Dropping it gives it back.
#[derive(Debug)]
pub struct Held(#[expect(dead_code, reason = "it is there to be dropped")] OwnedSemaphorePermit);

impl Shares {
    pub fn of(&self, tenant: Option<&TenantId>) -> Share {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.entry(tenant.cloned()).or_insert_with_key(|tenant| Share::new(tenant.is_none())).clone()
    }
}

impl Share {
    fn new(own: bool) -> Self {
        let calls = if own { OWN_CALLS_MAX } else { CALLS_MAX };
        Self { calls: Arc::new(Semaphore::new(calls)), bodies: Arc::new(Semaphore::new(BODIES_MAX / PIECE)) }
    }

    /// Takes the place of one call.
    pub fn call(&self) -> Result<Held, Refusal> {
        let hint = "wait for one to end; long commands belong in the background, with `stream`";
        let taken = self.calls.clone().try_acquire_owned();
        taken.map(Held).map_err(|_| too_much("too many calls are under way", hint))
    }

    /// Takes the room for a body of this many bytes.
    pub fn body(&self, bytes: usize) -> Result<Held, Refusal> {
        let pieces = u32::try_from(bytes.div_ceil(PIECE)).unwrap_or(u32::MAX);
        let taken = self.bodies.clone().try_acquire_many_owned(pieces);
        taken.map(Held).map_err(|_| too_much("too much is being sent at once", "files go to `…/files`"))
    }
}

fn too_much(what: &str, hint: &str) -> Refusal {
    let error = Error::new(Kind::LimitExceeded, what).hint(hint).detail("limit", "share");
    Refusal::from(error).header(header::RETRY_AFTER, HeaderValue::from(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tenant(name: &str) -> Option<TenantId> {
        Some(name.parse().expect("an id"))
    }

    #[test]
    fn one_tenant_does_not_have_it_all_and_what_is_given_back_can_be_had_again() {
        let (all, one, other) = (Shares::default(), tenant("acme"), tenant("globex"));
        let mut held: Vec<_> =
            (0..CALLS_MAX).map(|_| all.of(one.as_ref()).call().expect("its share")).collect();

        let more = all.of(one.as_ref()).call().expect_err("it has its share");
        assert_eq!((more.error.kind, more.headers.len()), (Kind::LimitExceeded, 1));
        assert!(all.of(other.as_ref()).call().is_ok());
        assert!(all.of(None).call().is_ok());
        held.pop();
        assert!(all.of(one.as_ref()).call().is_ok());
    }

    #[test]
    fn bodies_are_bounded_by_what_they_take_together() {
        let share = Shares::default().of(tenant("acme").as_ref());
        let half = share.body(BODIES_MAX / 2).expect("room");
        let rest = share.body(BODIES_MAX / 2 - PIECE + 1).expect("room");

        assert!(share.body(1).is_err());
        drop(rest);
        assert!(share.body(BODIES_MAX / 2).is_ok());
        drop(half);
    }
}
