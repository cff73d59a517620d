//! Which operations a token is good for: a list of names, or of prefixes with a `*`.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// More than there are operations; every request is compared with each pattern.
const PATTERNS_MAX: usize = 64;
const PATTERN_LEN_MAX: usize = 64;

/// The operations a token is good for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<String>", into = "Vec<String>")]
pub struct Scope(Vec<String>);

impl Scope {
    /// Returns the scope that covers every operation.
    pub fn all() -> Self {
        Self(vec!["*".to_owned()])
    }

    /// Tells whether the scope covers an operation of this name.
    pub fn covers(&self, operation: &str) -> bool {
        self.0.iter().any(|pattern| match pattern.strip_suffix('*') {
            Some(beginning) => operation.starts_with(beginning),
            None => operation == pattern,
        })
    }

    pub fn patterns(&self) -> &[String] {
        &self.0
    }
}

impl TryFrom<Vec<String>> for Scope {
    type Error = Error;

    fn try_from(patterns: Vec<String>) -> Result<Self> {
        if patterns.is_empty() || patterns.len() > PATTERNS_MAX {
            return Err(Error::invalid("allow", format!("must have 1 to {PATTERNS_MAX} patterns")));
        }
        patterns.iter().try_for_each(|pattern| check(pattern))?;
        Ok(Self(patterns))
    }
}

impl From<Scope> for Vec<String> {
    fn from(scope: Scope) -> Self {
        scope.0
    }
}

impl FromStr for Scope {
    type Err = Error;

    /// Reads patterns separated by commas.
    fn from_str(text: &str) -> Result<Self> {
        text.split(',').map(|pattern| pattern.trim().to_owned()).collect::<Vec<_>>().try_into()
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join(","))
    }
}

/// Refuses a pattern that fits no operation: a typing error would make a useless token.
fn check(pattern: &str) -> Result<()> {
    let name = pattern.strip_suffix('*').unwrap_or(pattern);
    let letters = name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
    match letters && !pattern.is_empty() && pattern.len() <= PATTERN_LEN_MAX {
        true => Ok(()),
        false => Err(Error::invalid(
            "allow",
            format!(
                "has the pattern `{}`, which no operation's name fits",
                pattern.chars().take(PATTERN_LEN_MAX).collect::<String>().escape_debug()
            ),
        )
        .hint("write names of operations, or beginnings with a `*`: `sandbox_*,image_list`")),
    }
}
