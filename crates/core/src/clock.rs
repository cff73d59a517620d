//! Time as a port: nothing in the pure rules reads a clock.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::Error;

/// Milliseconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Timestamp(u64);

impl Timestamp {
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis)
    }

    pub const fn as_millis(self) -> u64 {
        self.0
    }

    /// Returns the moment that much later.
    pub fn after(self, span: Duration) -> Self {
        Self::from_millis(
            self.as_millis().saturating_add(u64::try_from(span.as_millis()).unwrap_or(u64::MAX)),
        )
    }

    /// Returns the time passed since `earlier`, zero if the clock went backwards.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }
}

/// A date and a time in UTC, the same on every machine and sortable as text: `2026-11-16T09:00:31.123Z`.
impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, millis) = (self.0 / 1000, self.0 % 1000);
        let (days, second) = (seconds / 86_400, seconds % 86_400);
        let (year, month, day) = civil(days);
        let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millis:03}Z")
    }
}

/// Reads what is shown, with any number of decimals, and also with an offset from UTC: `+02:00`.
impl FromStr for Timestamp {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let read = || {
            let (date, time) = text.split_once('T')?;
            let (time, ahead) = without_zone(time)?;
            let (time, decimals) = time.split_once('.').unwrap_or((time, "0"));
            let [year, month, day] = numbers(date, '-')?;
            let [hour, minute, second] = numbers(time, ':')?;
            let millis = number(format!("{decimals:0<3}").get(..3)?)?;
            let in_range = (1970..10_000).contains(&year) && (1..=12).contains(&month);
            let days = in_range.then(|| days_before(year, month) + day)?.checked_sub(1)?;
            let exists = is_digits(decimals) && civil(days) == (year, month, day);
            let minutes = (exists && second < 60).then_some(days * 24 * 60 + minute_of_day(hour, minute)?)?;
            let minutes = minutes.checked_add_signed(-ahead)?;
            Some(Self((minutes * 60 + second) * 1000 + millis))
        };
        read().ok_or_else(|| Error::invalid("time", format!("`{}` is not a moment", text.escape_debug())))
    }
}

/// Splits off the zone; returns by how many minutes it is ahead of UTC.
fn without_zone(time: &str) -> Option<(&str, i64)> {
    if let Some(time) = time.strip_suffix('Z') {
        return Some((time, 0));
    }
    let (time, zone) = time.split_at_checked(time.len().checked_sub("+00:00".len())?)?;
    let (sign, offset) = zone.split_at_checked(1)?;
    let (hour, minute) = offset.split_once(':')?;
    let minutes = minute_of_day(number(hour)?, number(minute)?)?.cast_signed();
    match sign {
        "+" => Some((time, minutes)),
        "-" => Some((time, -minutes)),
        _ => None,
    }
}

fn minute_of_day(hour: u64, minute: u64) -> Option<u64> {
    (hour < 24 && minute < 60).then_some(hour * 60 + minute)
}

fn numbers(text: &str, between: char) -> Option<[u64; 3]> {
    let parts: Option<Vec<u64>> =
        text.split(between).map(|part| number(part).filter(|n| *n < 10_000)).collect();
    parts?.try_into().ok()
}

/// Reads digits only; Rust's parser would also accept a sign.
fn number(text: &str) -> Option<u64> {
    is_digits(text).then(|| text.parse().ok()).flatten()
}

fn is_digits(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Returns year, month and day so many days after 1970-01-01. It counts years from March: a leap day is then the last
/// day of a year, and the lengths of months follow one rule.
fn civil(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let march_month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
    (era * 400 + year + u64::from(month <= 2), month, day)
}

/// Returns how many days after 1970-01-01 a month begins, by the same count.
fn days_before(year: u64, month: u64) -> u64 {
    let year = year - u64::from(month <= 2);
    let march_month = (month + 9) % 12;
    year * 365 + year / 4 - year / 100 + year / 400 + (153 * march_month + 2) / 5 - 719_468
}

/// Tells the time.
pub trait Clock: Send + Sync {
    /// Returns the machine's wall clock. It can be set forwards and backwards.
    fn now(&self) -> Timestamp;

    /// Returns the time since the machine started, sleep included. It cannot be set.
    fn up(&self) -> Duration;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_written_and_read_as_other_programs_do() {
        // `date -u -d @SECONDS +%FT%TZ`
        for (millis, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_399_999, "2000-02-28T23:59:59.999Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (1_709_164_800_001, "2024-02-29T00:00:00.001Z"),
            (1_709_251_200_000, "2024-03-01T00:00:00.000Z"),
            (1_798_761_599_000, "2026-12-31T23:59:59.000Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
        ] {
            assert_eq!(Timestamp::from_millis(millis).to_string(), text);
            assert_eq!(text.parse().ok(), Some(Timestamp::from_millis(millis)));
        }
    }

    #[test]
    fn an_engines_moments_are_read_and_others_refused() {
        assert_eq!(
            "2000-02-29T00:00:00.123456789Z".parse().ok(),
            Some(Timestamp::from_millis(951_782_400_123))
        );
        assert_eq!("2000-02-29T00:00:00Z".parse().ok(), Some(Timestamp::from_millis(951_782_400_000)));
        for zoned in ["2000-02-29T02:00:00+02:00", "2000-02-28T18:30:00.0-05:30", "2000-02-29T00:00:00+00:00"]
        {
            assert_eq!(zoned.parse().ok(), Some(Timestamp::from_millis(951_782_400_000)), "{zoned}");
        }
        for refused in [
            "",
            "0001-01-01T00:00:00Z",
            "2000-13-01T00:00:00Z",
            "2000-00-00TZ",
            "2001-02-29T00:00:00Z",
            "2000-01-00T00:00:00Z",
            "2000-01-32T00:00:00Z",
            "2000-01-01T24:00:00Z",
            "2000-01-01T00:60:00Z",
            "2000-01-01T00:00:60Z",
            "2000-01-01T+1:00:00Z",
            "2000-01-01T00:00:00.1x2Z",
            "2000-01-01T00:00:00.123xZ",
            "2000-01-01T00:00:00+24:00",
            "2000-01-01T00:00:00+0200",
            "1970-01-01T00:00:00+01:00",
            "2000-01-01T00:00:00\u{e9}1:00",
        ] {
            assert!(refused.parse::<Timestamp>().is_err(), "{refused}");
        }
    }
}
