//! `NAME=VALUE` and `PATH=FILE`.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use coracle::{Error, Kind};

/// A name and its value; the value may contain further `=`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pair {
    pub name: String,
    pub value: String,
}

impl fmt::Display for Pair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.name, self.value)
    }
}

impl FromStr for Pair {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        match text.split_once('=') {
            Some((name, value)) if !name.is_empty() => {
                Ok(Self { name: name.to_owned(), value: value.to_owned() })
            }
            // The error does not repeat the text: it may be a value whose name was forgotten.
            _ => Err(Error::new(Kind::Invalid, "what is written is not `NAME=VALUE`")),
        }
    }
}

/// A path in the sandbox and the local file whose contents go there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalFile {
    pub path: String,
    pub local: PathBuf,
}

impl FromStr for LocalFile {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        match text.split_once('=') {
            Some((path, local)) if !path.is_empty() && !local.is_empty() => {
                Ok(Self { path: path.to_owned(), local: local.into() })
            }
            _ => Err(Error::new(Kind::Invalid, format!("`{}` is not `PATH=LOCAL`", text.escape_debug()))
                .hint("write where it goes in the sandbox, and the file here: `data.csv=./data.csv`")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_may_be_empty_or_hold_equals_signs_and_a_name_may_not() {
        let pair = |text: &str| text.parse::<Pair>().map(|pair| (pair.name, pair.value)).ok();

        assert_eq!(pair("A=b=c"), Some(("A".into(), "b=c".into())));
        assert_eq!(pair("A="), Some(("A".into(), String::new())));
        assert_eq!((pair("=b"), pair("A"), pair("")), (None, None, None));
    }
}
