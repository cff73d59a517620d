//! A person's name for a sandbox or an exec. [`Context`](crate::context::Context) resolves it.

use std::str::FromStr;

use coracle::Error;

/// An id, a session key, or the beginning of an id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SandboxName(String);

/// An id of an exec, or the beginning of one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExecName(String);

impl SandboxName {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl ExecName {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for SandboxName {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        match text.is_empty() {
            true => Err(Error::invalid("SBX", "is empty").hint("`coracle ps` lists sandboxes")),
            false => Ok(Self(text.to_owned())),
        }
    }
}

impl FromStr for ExecName {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        match text.is_empty() {
            true => Err(Error::invalid("EXEC", "is empty").hint("`coracle show SBX` lists execs")),
            false => Ok(Self(text.to_owned())),
        }
    }
}
