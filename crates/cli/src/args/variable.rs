//! `-e NAME=VALUE`, and `-e NAME` to pass on a variable of the caller.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use coracle::{Error, Result, config};

use super::pair::Pair;
use crate::stderr;

/// An environment variable of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Variable {
    Set(Pair),
    /// It has its value in coracle's own environment; if it is not set there, it is left out, with a note.
    PassedOn(String),
}

impl Variable {
    /// Returns the variables with their values. Reads those that are passed on.
    pub fn entries(variables: Vec<Self>) -> Result<BTreeMap<String, String>> {
        let mut entries = BTreeMap::new();
        for variable in variables {
            match variable {
                Self::Set(Pair { name, value }) => drop(entries.insert(name, value)),
                Self::PassedOn(name) => match config::passed_on(&name)? {
                    Some(value) => drop(entries.insert(name, value)),
                    None => stderr::note(&format!("`{name}` is not set here, so it is not passed on")),
                },
            }
        }
        Ok(entries)
    }
}

impl fmt::Display for Variable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Set(pair) => pair.fmt(f),
            Self::PassedOn(name) => f.write_str(name),
        }
    }
}

impl FromStr for Variable {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let letter = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        let is_name = text.bytes().all(letter) && text.starts_with(|first: char| !first.is_ascii_digit());
        match is_name {
            true => Ok(Self::PassedOn(text.to_owned())),
            false => text.parse().map(Self::Set).map_err(|error: Error| {
                error.hint("`NAME` alone passes on the variable you have, and takes letters, digits and `_`")
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_alone_is_passed_on_and_an_equals_sign_sets() {
        let read = |text: &str| text.parse::<Variable>().ok();
        let set = |name: &str, value: &str| {
            Some(Variable::Set(Pair { name: name.to_owned(), value: value.to_owned() }))
        };

        assert_eq!(read("A=b=c"), set("A", "b=c"));
        assert_eq!(read("A="), set("A", ""));
        assert_eq!(read("HOME"), Some(Variable::PassedOn("HOME".to_owned())));
        for refused in ["", "=x", "a value", "1A", "pass-word!"] {
            assert_eq!(read(refused), None, "{refused}");
        }
    }

    #[test]
    fn what_was_written_instead_of_a_name_is_not_repeated() {
        let refused = "hunter-2".parse::<Variable>().expect_err("no name");

        assert!(!refused.to_json().to_string().contains("hunter"));
    }
}
