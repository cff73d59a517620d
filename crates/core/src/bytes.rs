//! Amounts of memory and disk, as people write them.

use std::fmt;
use std::str::FromStr;

use crate::decimal::scaled;
use crate::error::{Error, Kind, Result};

/// A number of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Bytes(pub u64);

impl Bytes {
    /// Returns mebibytes, rounded up.
    pub fn as_mebibytes(self) -> u64 {
        self.0.div_ceil(1 << 20)
    }
}

impl FromStr for Bytes {
    type Err = Error;

    /// Reads `1048576`, `512k`, `512m`, `1.5g`, `1t` and their `K`, `kb`, `KiB` spellings; the base is 1024.
    fn from_str(text: &str) -> Result<Self> {
        let refuse = || {
            Error::new(Kind::Invalid, format!("`{}` is not a size", text.escape_debug()))
                .hint("write a number and a unit, as in `512m` or `1.5g`")
                .detail("field", "size")
        };
        let digits = text.bytes().take_while(|byte| byte.is_ascii_digit() || *byte == b'.').count();
        let (number, unit) = text.split_at(digits);
        let shift = match unit.to_ascii_lowercase().as_str() {
            "" | "b" => 0,
            "k" | "kb" | "kib" => 10,
            "m" | "mb" | "mib" => 20,
            "g" | "gb" | "gib" => 30,
            "t" | "tb" | "tib" => 40,
            _ => return Err(refuse()),
        };
        // A fraction of a byte is a typing error.
        let whole = shift > 0 || !number.contains('.');
        scaled(number, 1 << shift).filter(|_| whole).map(Self).ok_or_else(refuse)
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [(40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")];
        match units.iter().find(|(shift, _)| self.0 >= 1 << shift) {
            Some((shift, unit)) => write!(f, "{:.1} {unit}", self.0 as f64 / (1u64 << shift) as f64),
            None => write!(f, "{} B", self.0),
        }
    }
}
