//! `Coracle-Deadline`: how long a request may take, counted from its head.

use std::time::Instant;

use axum::extract::Request;
use axum::http::{Extensions, HeaderMap};
use coracle::{Error, Kind};
use coracle_core::duration;
use tokio::time::{sleep_until, timeout_at};

use super::auth;
use super::reply::Refusal;

const HEADER: &str = "coracle-deadline";

/// When the head of a request was read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Began(pub Instant);

/// When a request has to be answered, if its client has set a deadline.
#[derive(Debug, Clone, Copy, Default)]
pub struct Deadline(Option<Instant>);

impl Deadline {
    /// Reads the deadline of a request. One that is over already is a `timeout`: zero may be what is left of a client's
    /// time.
    pub(crate) fn read(request: &Request) -> Result<Self, Refusal> {
        let began = request.extensions().get::<Began>().map_or_else(Instant::now, |began| began.0);
        let deadline = Self::of(request.headers(), began)?;
        deadline.check()?;
        Ok(deadline)
    }

    fn of(headers: &HeaderMap, began: Instant) -> Result<Self, Refusal> {
        let Some(text) = auth::text(headers, HEADER)? else { return Ok(Self(None)) };
        let wrong =
            |error: Error| Error::invalid(HEADER, "is not a duration").hint(error.hint.unwrap_or_default());
        Ok(Self(began.checked_add(duration::parse(text).map_err(wrong)?)))
    }

    /// Returns the deadline of a request that was admitted.
    pub fn kept_in(extensions: &Extensions) -> Self {
        extensions.get().copied().unwrap_or_default()
    }

    pub fn instant(self) -> Option<Instant> {
        self.0
    }

    /// Fails once it has passed.
    pub fn check(self) -> coracle::Result<()> {
        match self.0 {
            Some(instant) if instant <= Instant::now() => Err(late()),
            _ => Ok(()),
        }
    }

    /// Waits until it has passed; without one, for ever.
    pub async fn passed(self) {
        match self.0 {
            Some(instant) => sleep_until(instant.into()).await,
            None => std::future::pending().await,
        }
    }

    /// Waits for work, until the deadline. The work is dropped then.
    pub async fn bound<T>(self, work: impl Future<Output = T>) -> coracle::Result<T> {
        match self.0 {
            Some(instant) => timeout_at(instant.into(), work).await.map_err(|_| late()),
            None => Ok(work.await),
        }
    }
}

/// Returns the error of a request that took too long, the same as the engine's.
pub fn late() -> Error {
    Error::new(Kind::Timeout, "the call took longer than its deadline")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn read(text: &str) -> Result<Deadline, Kind> {
        let headers = HeaderMap::from_iter([(HEADER.parse().expect("a name"), text.parse().expect("plain"))]);
        Deadline::of(&headers, Instant::now()).map_err(|refusal| refusal.error.kind)
    }

    #[tokio::test]
    async fn work_is_bounded_by_a_deadline_and_by_nothing_without_one() {
        let short = read("10ms").expect("a duration");
        let late = short.bound(std::future::pending::<()>()).await.map_err(|error| error.kind);

        assert_eq!(late, Err(Kind::Timeout));
        assert!(short.check().is_err());
        assert!(read("1h").expect("a duration").check().is_ok());
        let none = Deadline::default();
        assert_eq!(none.bound(async { 7 }).await.expect("it has all the time"), 7);
        assert!(tokio::time::timeout(Duration::from_millis(10), none.passed()).await.is_err());
    }

    #[test]
    fn zero_is_over_and_nonsense_is_refused() {
        assert!(read("0").expect("a duration").check().is_err());
        assert_eq!(read("soon").err(), Some(Kind::Invalid));
    }
}
