//! What each tenant may take of the daemon at once: calls that wait on a thread, and memory for bodies and answers.
//! Without these bounds one tenant could take everything, and the others would get no answer.
//!
//! A call keeps its place, and its answer the memory, until the last byte is written: a client that does not read its
//! answers cannot send further calls.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use axum::body::{Body, HttpBody};
use axum::http::{HeaderValue, header};
use axum::response::Response;
use bytes::Bytes;
use coracle::{Error, Kind};
use coracle_core::TenantId;
use coracle_engine::Inline;
use coracle_engine::egress::weak::{self, Wall};
use coracle_engine::inline::AnswerMemory;
use futures_util::TryStreamExt;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::held_bytes::held_with;
use super::reply::Refusal;

/// Calls of one tenant that run at the same time.
const CALLS_MAX: usize = 256;
/// The home's own people share only among themselves.
const OWN_CALLS_MAX: usize = 1024;
/// Memory of one tenant's bodies while they are read and used.
const BODIES_MAX: usize = 128 << 20;
/// Bodies are counted in pieces of this size.
const PIECE: usize = 64 << 10;
/// Memory of one tenant's answers until they are written. The largest file in a single answer fits, counted twice
/// while it is copied.
const ANSWERS_MAX: u64 = 32 << 20;
/// An answer up to this size costs only a place; there are as many as there are places.
const SMALL: u64 = 16 << 10;

/// The share of each tenant; `None` is that of the home's own people. As many as there are tenants with a token.
#[derive(Debug, Default)]
pub struct Shares(Mutex<HashMap<Option<TenantId>, Share>>);

/// The share of one tenant.
#[derive(Debug, Clone)]
pub struct Share {
    calls: Arc<Semaphore>,
    bodies: Arc<Semaphore>,
    answers: Arc<Answers>,
}

/// The memory taken by answers.
#[derive(Debug, Default)]
struct Answers(AtomicU64);

/// What one call has taken of its tenant's share: a place, and the memory of its answer. Dropping the last clone
/// releases both.
#[derive(Debug, Clone)]
pub struct Booking(Arc<Booked>);

#[derive(Debug)]
struct Booked {
    _permit: Permit,
    answers: Arc<Answers>,
    taken: AtomicU64,
}

/// A part of a share. Dropping it releases it.
#[derive(Debug)]
pub struct Permit(#[expect(dead_code, reason = "it is there to be dropped")] OwnedSemaphorePermit);

impl Shares {
    pub fn of(&self, tenant: Option<&TenantId>) -> Share {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.entry(tenant.cloned()).or_insert_with_key(|tenant| Share::new(tenant.is_none())).clone()
    }
}

impl Share {
    fn new(own: bool) -> Self {
        let calls = if own { OWN_CALLS_MAX } else { CALLS_MAX };
        Self {
            calls: Arc::new(Semaphore::new(calls)),
            bodies: Arc::new(Semaphore::new(BODIES_MAX / PIECE)),
            answers: Arc::default(),
        }
    }

    /// Takes a place for a call whose answer is held in memory. Refused while too many answers are unread.
    pub fn book(&self) -> Result<Booking, Refusal> {
        if self.answers.0.load(Ordering::Relaxed) >= ANSWERS_MAX && !weak::off(Wall::Answers) {
            return Err(too_much("too many answers wait to be read", "read those that were asked for first"));
        }
        let booked =
            Booked { _permit: self.call()?, answers: self.answers.clone(), taken: AtomicU64::new(0) };
        Ok(Booking(Arc::new(booked)))
    }

    /// Takes a place for one call.
    pub fn call(&self) -> Result<Permit, Refusal> {
        let hint = "wait for one to end; long commands belong in the background, with `stream`";
        let taken = self.calls.clone().try_acquire_owned();
        taken.map(Permit).map_err(|_| too_much("too many calls are under way", hint))
    }

    /// Takes the memory for a body of this many bytes.
    pub fn body(&self, bytes: usize) -> Result<Permit, Refusal> {
        let pieces = u32::try_from(bytes.div_ceil(PIECE)).unwrap_or(u32::MAX);
        let taken = self.bodies.clone().try_acquire_many_owned(pieces);
        taken.map(Permit).map_err(|_| too_much("too much is being sent at once", "files go to `…/files`"))
    }
}

impl Answers {
    fn take(&self, bytes: u64) -> bool {
        let more = |used: u64| used.checked_add(bytes).filter(|used| *used <= ANSWERS_MAX);
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
    }
}

impl AnswerMemory for Booked {
    fn take(&self, bytes: u64) -> bool {
        let taken = self.answers.take(bytes);
        if taken {
            self.taken.fetch_add(bytes, Ordering::Relaxed);
        }
        taken
    }
}

impl Drop for Booked {
    fn drop(&mut self) {
        self.answers.0.fetch_sub(*self.taken.get_mut(), Ordering::Relaxed);
    }
}

impl Booking {
    /// Returns how much output the answer may carry; it is taken from the share.
    pub fn inline(&self, most: u64) -> Inline {
        Inline::at_most(most).counted_by(self.0.clone())
    }

    /// Has a response hold its memory until it is written or dropped.
    pub async fn carried(self, response: Response) -> Response {
        let (parts, body) = response.into_parts();
        let body = match body.size_hint().exact() {
            Some(_) => match axum::body::to_bytes(body, usize::MAX).await {
                Ok(bytes) => {
                    self.settle(bytes.len() as u64);
                    // The buffer grew by doubling. The copy has the exact size, because it may wait for its reader
                    // for a while.
                    Body::from(self.held_with(Bytes::copy_from_slice(&bytes)))
                }
                Err(error) => Body::from_stream(futures_util::stream::once(async { Err::<Bytes, _>(error) })),
            },
            None => Body::from_stream(body.into_data_stream().map_ok(move |piece| self.held_with(piece))),
        };
        Response::from_parts(parts, body)
    }

    /// Takes what an answer really needs, once it exists: less, or more even if there is no room for it.
    fn settle(&self, bytes: u64) {
        let bytes = if bytes > SMALL { bytes } else { 0 };
        let before = self.0.taken.swap(bytes, Ordering::Relaxed);
        self.0.answers.0.fetch_add(bytes, Ordering::Relaxed);
        self.0.answers.0.fetch_sub(before, Ordering::Relaxed);
    }

    fn held_with(&self, bytes: Bytes) -> Bytes {
        held_with(bytes, self.clone())
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
    fn an_answer_has_its_place_and_its_memory_until_the_last_byte_of_it_is_gone() {
        let share = Shares::default().of(tenant("acme").as_ref());
        let answers: Vec<_> = (0..4)
            .map(|_| {
                let booking = share.book().expect("room");
                booking.settle(ANSWERS_MAX / 4);
                booking.held_with(Bytes::from_static(b"answer"))
            })
            .collect();

        let more = share.book().expect_err("the answers are unread");
        assert_eq!((more.error.kind, more.headers.len()), (Kind::LimitExceeded, 1));
        let part = answers[0].slice(2..3);
        drop(answers);
        assert_eq!(share.answers.0.load(Ordering::Relaxed), ANSWERS_MAX / 4, "a part of it is still there");
        drop(part);
        assert_eq!(share.answers.0.load(Ordering::Relaxed), 0);
        assert_eq!(share.calls.available_permits(), CALLS_MAX);
    }

    #[test]
    fn room_for_an_answer_is_taken_before_there_is_one() {
        let share = Shares::default().of(tenant("acme").as_ref());
        let (one, other) = (share.book().expect("room"), share.book().expect("room"));

        assert!(one.0.take(ANSWERS_MAX - 1));
        assert!(!other.0.take(2));
        one.settle(1 << 20);
        assert!(other.0.take(2));
        drop((one, other));
        assert_eq!(share.answers.0.load(Ordering::Relaxed), 0);
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
