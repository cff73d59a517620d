//! Amounts as people write them on the command line.

use std::time::Duration;

use coracle::{Error, Kind, Result};
use coracle_core::bytes::Bytes;
use coracle_core::duration;

/// A span of time, kept with the text it was written as.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Span {
    pub text: String,
    pub duration: Duration,
}

/// Reads `500ms`, `1.5s`, `1m30s`, `1h`.
pub fn span(text: &str) -> Result<Span> {
    Ok(Span { text: text.to_owned(), duration: duration::parse(text)? })
}

/// Reads a span whose unit must be written: for what lasts days, a number alone would be seconds.
pub fn span_with_unit(text: &str) -> Result<Span> {
    let span = span(text)?;
    match text.ends_with(|last: char| last.is_ascii_digit()) {
        false => Ok(span),
        true => Err(Error::new(
            Kind::Invalid,
            format!("`{text}` has no unit, and would be {}", duration::shown(span.duration)),
        )
        .hint(format!("did you mean `{text}d`?"))),
    }
}

/// Reads `512m`, `1.5g`, as whole mebibytes. A number alone is bytes; where no value is that small, the unit was
/// forgotten.
pub fn mebibytes(text: &str) -> Result<u64> {
    let size: Bytes = text.parse()?;
    let has_unit = text.ends_with(|last: char| !last.is_ascii_digit());
    match has_unit || size.0 >= 1 << 20 {
        true => Ok(size.as_mebibytes()),
        false => Err(Error::new(Kind::Invalid, format!("`{text}` has no unit, and would be {size}"))
            .hint(format!("did you mean `{text}m`?"))),
    }
}

/// Reads `10m`, as bytes.
pub fn bytes(text: &str) -> Result<u64> {
    Ok(text.parse::<Bytes>()?.0)
}

/// Reads `2`, `0.5`, as thousandths of a CPU.
pub fn millicores(text: &str) -> Result<u64> {
    let refuse = || {
        Error::new(Kind::Invalid, format!("`{}` is not a number of CPUs", text.escape_debug()))
            .hint("write a number such as `2` or `0.5`, with at most three decimals")
    };
    let (whole, decimals) = text.split_once('.').unwrap_or((text, "0"));
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number(whole) || !is_number(decimals) || decimals.len() > 3 {
        return Err(refuse());
    }
    let whole: u64 = whole.parse().map_err(|_| refuse())?;
    let decimals: u64 = format!("{decimals:0<3}").parse().map_err(|_| refuse())?;
    whole.checked_mul(1000).and_then(|millis| millis.checked_add(decimals)).ok_or_else(refuse)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpus_are_counted_in_thousandths() {
        let read = |text: &str| millicores(text).ok();

        assert_eq!(
            [read("1"), read("0.5"), read("1.25"), read("2.005")],
            [Some(1000), Some(500), Some(1250), Some(2005)]
        );
        for refused in ["", ".", "-1", "1.", ".5", "1e3", "nan", "0.0001", "99999999999999999999"] {
            assert_eq!(read(refused), None, "{refused}");
        }
    }

    #[test]
    fn memory_is_rounded_up_to_whole_mebibytes() {
        assert_eq!(mebibytes("512m").ok(), Some(512));
        assert_eq!(mebibytes("1.5g").ok(), Some(1536));
        assert_eq!(mebibytes("1k").ok(), Some(1));
        assert_eq!(mebibytes("1048577").ok(), Some(2));
        assert_eq!(mebibytes("512").expect_err("no unit").hint.as_deref(), Some("did you mean `512m`?"));
        assert_eq!(mebibytes("much").ok(), None);
    }
}
