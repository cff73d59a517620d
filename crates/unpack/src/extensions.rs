//! Entries that describe the next one: PAX records and GNU's long names.

use std::collections::BTreeMap;

use crate::limits::{ATTRIBUTE_VALUE_MAX, ATTRIBUTES_MAX};
use crate::refusal::Refusal;

/// The records the unpacker uses. Other readers of an archive may use more, so it refuses records that change what
/// an entry is (sparse files) instead of ignoring them.
#[derive(Debug, Default)]
pub struct Extensions {
    pub name: Option<Vec<u8>>,
    pub link: Option<Vec<u8>>,
    pub size: Option<u64>,
    pub uid: Option<u64>,
    pub gid: Option<u64>,
    /// Whole seconds, rounded down.
    pub time: Option<i64>,
    /// The `user.` attributes, by name.
    pub attributes: BTreeMap<Vec<u8>, Vec<u8>>,
    /// How many attributes were left out.
    pub stripped: u64,
}

/// Where the kernel keeps an overlay's own attributes; an image must not set them.
const OVERLAY: &[u8] = b"user.overlay.";

impl Extensions {
    /// Reads the records that describe one entry.
    pub fn parse(text: &[u8]) -> Result<Self, Refusal> {
        let mut extensions = Self::default();
        for record in Records(text) {
            let (key, value) = record?;
            extensions.take(key, value)?;
        }
        Ok(extensions)
    }

    fn take(&mut self, key: &[u8], value: &[u8]) -> Result<(), Refusal> {
        match key {
            b"path" => once(&mut self.name, name(value)?, key),
            b"linkpath" => once(&mut self.link, name(value)?, key),
            b"size" => once(&mut self.size, number(key, value)?, key),
            b"uid" => once(&mut self.uid, number(key, value)?, key),
            b"gid" => once(&mut self.gid, number(key, value)?, key),
            b"mtime" => once(&mut self.time, seconds(value)?, key),
            _ if key.starts_with(b"GNU.sparse.") || key == b"SCHILY.realsize" => {
                Err(Refusal::unsupported("the archive has sparse files"))
            }
            _ => match key.strip_prefix(b"SCHILY.xattr.") {
                Some(attribute) => self.take_attribute(attribute, value),
                None => Ok(()),
            },
        }
    }

    fn take_attribute(&mut self, name: &[u8], value: &[u8]) -> Result<(), Refusal> {
        let kept = name.starts_with(b"user.")
            && !name.starts_with(OVERLAY)
            && name.len() <= 255
            && !name.contains(&0)
            && value.len() <= ATTRIBUTE_VALUE_MAX
            && self.attributes.len() < ATTRIBUTES_MAX;
        if !kept {
            self.stripped += 1;
            return Ok(());
        }
        match self.attributes.insert(name.to_vec(), value.to_vec()) {
            Some(_) => Err(twice(name)),
            None => Ok(()),
        }
    }
}

/// Refuses records that would change all entries that follow: `tar` applies them, Docker does not.
pub fn check_global(text: &[u8]) -> Result<(), Refusal> {
    for record in Records(text) {
        let (key, _) = record?;
        if !matches!(key, b"comment" | b"charset" | b"hdrcharset" | b"atime" | b"ctime" | b"uname" | b"gname")
        {
            let key = key.escape_ascii();
            return Err(Refusal::unsupported(format!("the archive sets `{key}` for all its entries")));
        }
    }
    Ok(())
}

/// Records like `30 mtime=1350244992.023960108\n`. A value may contain line ends: only the length counts.
struct Records<'a>(&'a [u8]);

impl<'a> Iterator for Records<'a> {
    type Item = Result<(&'a [u8], &'a [u8]), Refusal>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let record = split_record(self.0);
        match record {
            Some((key, value, rest)) => {
                self.0 = rest;
                Some(Ok((key, value)))
            }
            None => {
                self.0 = b"";
                Some(Err(Refusal::malformed("a PAX record is malformed")))
            }
        }
    }
}

fn split_record(text: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let space = text.iter().take(8).position(|byte| *byte == b' ')?;
    let length = usize::try_from(digits(&text[..space])?).ok()?;
    let record = text.get(space + 1..length)?.strip_suffix(b"\n")?;
    let equals = record.iter().position(|byte| *byte == b'=')?;
    let (key, value) = (&record[..equals], &record[equals + 1..]);
    // Some readers take a NUL for the end of the record.
    (equals > 0 && !key.iter().any(|byte| matches!(byte, 0 | b'\n'))).then_some((key, value, &text[length..]))
}

fn once<T>(slot: &mut Option<T>, value: T, key: &[u8]) -> Result<(), Refusal> {
    match slot.replace(value) {
        Some(_) => Err(twice(key)),
        None => Ok(()),
    }
}

fn twice(key: &[u8]) -> Refusal {
    Refusal::malformed(format!("the PAX record `{}` is there twice", key.escape_ascii()))
}

fn name(value: &[u8]) -> Result<Vec<u8>, Refusal> {
    match value.is_empty() || value.contains(&0) {
        true => Err(Refusal::malformed("a name in a PAX record is empty or has a NUL in it")),
        false => Ok(value.to_vec()),
    }
}

fn number(key: &[u8], value: &[u8]) -> Result<u64, Refusal> {
    let what = || format!("the PAX record `{}` is not a number in range", key.escape_ascii());
    digits(value).ok_or_else(|| Refusal::malformed(what()))
}

fn seconds(value: &[u8]) -> Result<i64, Refusal> {
    let (negative, value) = match value.strip_prefix(b"-") {
        Some(rest) => (true, rest),
        None => (false, value),
    };
    let (whole, fraction) = match value.iter().position(|byte| *byte == b'.') {
        Some(point) => (&value[..point], &value[point + 1..]),
        None => (value, &b""[..]),
    };
    let whole = digits(whole).filter(|_| fraction.iter().all(u8::is_ascii_digit));
    let whole = whole.ok_or_else(|| Refusal::malformed("the PAX record `mtime` is not a time"))?;
    let whole = i64::try_from(whole).unwrap_or(i64::MAX);
    Ok(if negative { -whole } else { whole })
}

/// Reads decimal digits and nothing else: no sign, no space, no overflow.
fn digits(text: &[u8]) -> Option<u64> {
    let digits = std::str::from_utf8(text).ok()?;
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    digits.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(key: &str, value: &str) -> String {
        let rest = format!(" {key}={value}\n");
        let digits = (1..).find(|digits| (rest.len() + digits).to_string().len() == *digits);
        format!("{}{rest}", rest.len() + digits.expect("some number of digits fits"))
    }

    #[test]
    fn a_value_with_a_line_end_is_one_record() {
        let text = record("comment", "a\n12 size=9\n") + &record("size", "7");

        assert_eq!(Extensions::parse(text.as_bytes()).expect("is well formed").size, Some(7));
    }

    #[test]
    fn what_is_there_twice_or_not_a_number_is_refused() {
        for text in [
            record("size", "1") + &record("size", "1"),
            record("path", "a") + &record("path", "b"),
            record("size", "-1"),
            record("size", "0x10"),
            record("size", "99999999999999999999999"),
            record("path", ""),
            "8 size=1\n".into(),
            "12 size=1\n".into(),
            record("size", "1") + "\0",
            record("GNU.sparse.major", "1"),
        ] {
            assert!(Extensions::parse(text.as_bytes()).is_err(), "{text:?}");
        }
    }

    #[test]
    fn only_attributes_of_users_are_kept_and_none_of_the_overlays() {
        let text = ["user.a", "user.overlay.opaque", "trusted.overlay.opaque", "security.capability"];
        let text: String = text.iter().map(|name| record(&format!("SCHILY.xattr.{name}"), "y")).collect();

        let extensions = Extensions::parse(text.as_bytes()).expect("is well formed");

        assert_eq!(extensions.attributes.keys().collect::<Vec<_>>(), [b"user.a"]);
        assert_eq!(extensions.stripped, 3);
    }

    #[test]
    fn times_before_the_epoch_are_read_as_such() {
        let time = |value| Extensions::parse(record("mtime", value).as_bytes()).map(|found| found.time);

        assert_eq!(time("-1.5"), Ok(Some(-1)));
        assert_eq!(time("99999999999999.25"), Ok(Some(99_999_999_999_999)));
        assert!(time("yesterday").is_err());
    }
}
