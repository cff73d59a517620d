//! Why the unpacker refuses a layer.

use std::fmt;
use std::io;

/// The kind of a refusal: what a caller could treat differently.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// The archive is broken, or says something no honest archive says.
    Malformed,
    /// The archive is larger than the limits allow.
    Limit,
    /// The archive uses a feature that the unpacker does not read.
    Unsupported,
    /// The machine failed: no space, no memory, no support.
    Machine,
}

/// A refusal, with what was wrong and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    pub reason: Reason,
    pub text: String,
}

impl Refusal {
    pub fn malformed(text: impl Into<String>) -> Self {
        Self { reason: Reason::Malformed, text: text.into() }
    }

    pub fn limit(text: impl Into<String>) -> Self {
        Self { reason: Reason::Limit, text: text.into() }
    }

    pub fn unsupported(text: impl Into<String>) -> Self {
        Self { reason: Reason::Unsupported, text: text.into() }
    }

    /// Names the call that failed. The archive is not to blame.
    pub fn machine(attempted: impl fmt::Display, error: impl fmt::Display) -> Self {
        Self { reason: Reason::Machine, text: format!("could not {attempted}: {error}") }
    }

    /// Turns a read error into a refusal: the one that our own reader put into it, or a damaged stream.
    pub fn reading(error: io::Error) -> Self {
        match error.downcast::<Refusal>() {
            Ok(refusal) => refusal,
            Err(error) => Self::malformed(format!("the stream is damaged or cut short: {error}")),
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Refusal {}

impl From<Refusal> for io::Error {
    fn from(refusal: Refusal) -> Self {
        io::Error::other(refusal)
    }
}
