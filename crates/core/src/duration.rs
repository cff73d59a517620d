//! Spans of time, as people write them.

use std::time::Duration;

use crate::decimal::scaled;
use crate::error::{Error, Kind, Result};

/// The units, the longest first, in milliseconds.
const UNITS: [(&str, u64); 5] = [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1)];

/// Reads `1500ms`, `1.5s`, `30s`, `1m30s`, `1h`, `2d`; a bare number is seconds.
pub fn parse(text: &str) -> Result<Duration> {
    let millis = match text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') {
        true => scaled(text, 1000),
        false => sum(text),
    };
    millis.map(Duration::from_millis).ok_or_else(|| {
        Error::new(Kind::Invalid, format!("`{}` is not a duration", text.escape_debug()))
            .hint("write numbers and units, as in `500ms`, `1.5s`, `1m30s`, `2h` or `1d`")
            .detail("field", "duration")
    })
}

/// Returns a span as [`parse`] reads it, as in `1m30s` and `1.5s`.
pub fn shown(span: Duration) -> String {
    let mut left = u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
    let mut text = String::new();
    for (name, unit) in UNITS {
        if name == "s" && left > unit && left % unit != 0 {
            let seconds = format!("{}.{:03}", left / unit, left % unit);
            return text + seconds.trim_end_matches('0') + name;
        }
        if left >= unit {
            text.push_str(&format!("{}{name}", left / unit));
            left %= unit;
        }
    }
    if text.is_empty() { "0s".to_owned() } else { text }
}

/// Adds up parts such as `1m` and `30s`, of which each unit is shorter than the one before.
fn sum(text: &str) -> Option<u64> {
    let (mut rest, mut total, mut units) = (text, 0_u64, UNITS.as_slice());
    while !rest.is_empty() {
        let number = rest.find(|character: char| !character.is_ascii_digit() && character != '.')?;
        let behind = &rest[number..];
        let end = behind.find(|character: char| character.is_ascii_digit()).unwrap_or(behind.len());
        let place = units.iter().position(|(name, _)| *name == &behind[..end])?;
        total = total.checked_add(scaled(&rest[..number], units[place].1)?)?;
        (rest, units) = (&behind[end..], &units[place + 1..]);
    }
    Some(total)
}
