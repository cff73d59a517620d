//! Spans of time, as people write them.

use std::time::Duration;

use crate::error::{Error, Result};

/// Reads `1500ms`, `30s`, `5m`, `1h`, `2d`; a bare number is seconds.
pub fn parse(text: &str) -> Result<Duration> {
    let refuse = || {
        Error::invalid("duration", format!("`{}` is not a duration", text.escape_debug()))
            .hint("write a number and a unit, as in `500ms`, `30s`, `5m` or `1h`")
    };
    let digits = text.bytes().take_while(|byte| byte.is_ascii_digit()).count();
    let (number, unit) = text.split_at(digits);
    let millis = match unit {
        "ms" => 1,
        "" | "s" => 1000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return Err(refuse()),
    };
    let number: u64 = number.parse().map_err(|_| refuse())?;
    number.checked_mul(millis).map(Duration::from_millis).ok_or_else(refuse)
}
