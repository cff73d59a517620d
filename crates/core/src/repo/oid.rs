//! The id of a git object.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// Digits of a SHA-1, the only hash our repositories use.
const DIGITS: usize = 40;

/// The id of a git object: its hash, in small hexadecimal digits. Never the null id.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(extend("pattern" = "^[0-9a-f]{40}$"))]
pub struct Oid(String);

impl Oid {
    /// Stands in git's protocol for an object that is not there.
    pub const NULL: &str = "0000000000000000000000000000000000000000";

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Reads an id as git's protocol writes it. The null id is `Some(None)`.
    pub fn from_wire(text: &str) -> Option<Option<Self>> {
        match text == Self::NULL {
            true => Some(None),
            false => text.parse().ok().map(Some),
        }
    }

    /// Returns an id as git's protocol writes it.
    pub fn to_wire(id: Option<&Self>) -> &str {
        id.map_or(Self::NULL, Self::as_str)
    }
}

impl fmt::Display for Oid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<Oid> for String {
    fn from(id: Oid) -> Self {
        id.0
    }
}

impl TryFrom<String> for Oid {
    type Error = Error;

    fn try_from(text: String) -> Result<Self> {
        let digits = text.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte));
        match digits && text.len() == DIGITS && text != Self::NULL {
            true => Ok(Self(text)),
            false => Err(Error::invalid("sha", "must be the 40 hexadecimal digits of an object's id")),
        }
    }
}

impl FromStr for Oid {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        text.to_owned().try_into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_ids_are_ids() {
        let whole = "0123456789abcdef0123456789abcdef01234567";

        assert_eq!(whole.parse::<Oid>().expect("an id").as_str(), whole);
        for bad in ["", "0123", Oid::NULL, &whole.to_uppercase(), &format!("{whole}0")] {
            assert!(bad.parse::<Oid>().is_err(), "{bad}");
        }
        assert_eq!(Oid::from_wire(Oid::NULL), Some(None));
        assert_eq!(Oid::to_wire(None), Oid::NULL);
    }
}
