//! How long a command may run: what a caller asks, and what the policy makes of it.

use std::time::Duration;

use coracle_core::duration::shown;
use coracle_core::{Error, Policy, Result};

use crate::guest::FOR_EVER;

/// The wall time of a command.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Timeout {
    /// The policy's: for commands a caller waits for.
    #[default]
    Usual,
    /// As long as the policy lets it: for what runs in the background or on a terminal, where no time was written.
    Longest,
    /// No deadline, as the caller wrote. Refused where the policy has a maximum.
    None,
    After(Duration),
}

impl Timeout {
    /// Reads what an operation takes; `unwritten` is for where nothing is written.
    pub fn written(
        seconds: Option<u64>,
        ms: Option<u64>,
        no_timeout: Option<bool>,
        unwritten: Self,
    ) -> Result<Self> {
        match (written_span(seconds, ms)?, no_timeout.unwrap_or(false)) {
            (Some(_), true) => {
                Err(Error::invalid("no_timeout", "excludes `timeout_seconds` and `timeout_ms`"))
            }
            (None, true) => Ok(Self::None),
            (Some(span), false) => Ok(Self::After(span)),
            (None, false) => Ok(unwritten),
        }
    }

    /// Returns the same for a command in the background.
    pub fn in_background(self) -> Self {
        match self {
            Self::Usual => Self::Longest,
            written => written,
        }
    }

    /// Returns how long the command may run, for ever if absent, or refuses what the policy does not let.
    pub(crate) fn checked(self, policy: &Policy) -> Result<Option<Duration>> {
        match (self, policy.exec_timeout_max) {
            (Self::Usual, _) => Ok(Some(policy.exec_timeout)),
            (Self::Longest, max) => Ok(max),
            (Self::None, None) => Ok(None),
            (Self::None, Some(max)) => Err(too_long("is none", max)),
            (Self::After(span), max) => check_span(span, max).map(Some),
        }
    }
}

/// Reads how long to wait for something, written in one of two units.
pub fn checked_wait(seconds: Option<u64>, ms: Option<u64>, policy: &Policy) -> Result<Option<Duration>> {
    written_span(seconds, ms)?.map(|span| check_span(span, policy.exec_timeout_max)).transpose()
}

fn written_span(seconds: Option<u64>, ms: Option<u64>) -> Result<Option<Duration>> {
    match (seconds, ms) {
        (Some(_), Some(_)) => Err(Error::invalid("timeout_ms", "and `timeout_seconds` exclude each other")),
        (Some(seconds), None) => Ok(Some(Duration::from_secs(seconds))),
        (None, ms) => Ok(ms.map(Duration::from_millis)),
    }
}

fn check_span(span: Duration, max: Option<Duration>) -> Result<Duration> {
    match max {
        _ if span.is_zero() || span > FOR_EVER => Err(Error::invalid(
            "timeout_seconds",
            format!("is {}, outside 1ms to {}", shown(span), shown(FOR_EVER)),
        )
        .hint("write `no_timeout` for a command without a deadline")),
        Some(max) if span > max => Err(too_long(&format!("is {}", shown(span)), max)),
        Some(_) | None => Ok(span),
    }
}

fn too_long(what: &str, max: Duration) -> Error {
    Error::invalid("timeout_seconds", format!("{what}, more than the maximum of {}", shown(max)))
        .hint("`exec_timeout_max` in the settings is the maximum")
        .detail("max_ms", u64::try_from(max.as_millis()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    fn bounded() -> Policy {
        Policy { exec_timeout_max: Some(HOUR), ..Policy::default() }
    }

    #[test]
    fn what_is_waited_for_has_the_usual_time_and_the_rest_none() {
        let policy = Policy::default();

        assert_eq!(Timeout::Usual.checked(&policy).ok(), Some(Some(Duration::from_secs(300))));
        assert_eq!(Timeout::Usual.in_background().checked(&policy).ok(), Some(None));
        assert_eq!(Timeout::None.checked(&policy).ok(), Some(None));
        assert_eq!(Timeout::After(HOUR).in_background(), Timeout::After(HOUR));
    }

    #[test]
    fn a_maximum_caps_what_is_not_written_and_refuses_what_is() {
        assert_eq!(Timeout::Longest.checked(&bounded()).ok(), Some(Some(HOUR)));
        for refused in [Timeout::None, Timeout::After(HOUR * 2)] {
            let error = refused.checked(&bounded()).expect_err("more than the maximum");
            assert!(error.message.contains("maximum of 1h"), "{}", error.message);
            assert_eq!(error.details["max_ms"], 3_600_000);
        }
    }

    #[test]
    fn no_timeout_excludes_a_timeout() {
        let read = |ms, none| Timeout::written(None, ms, none, Timeout::Usual);

        assert_eq!(read(None, Some(true)).ok(), Some(Timeout::None));
        assert_eq!(read(None, Some(false)).ok(), Some(Timeout::Usual));
        assert_eq!(read(Some(7), None).ok(), Some(Timeout::After(Duration::from_millis(7))));
        assert!(read(Some(7), Some(true)).is_err());
    }
}
