//! The one error every door shows: a stable kind, what was attempted, a hint, and details for machines.

use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::printable;

/// The detail of errors that are known to come from a full disk.
pub const DISK_FULL: &str = "disk_full";
/// The errno of a full disk, a spent quota, and of a filesystem inside a file on a full disk.
const WANT_OF_ROOM: [i32; 4] = [28, 122, 5, 30];

/// Shorthand for results of operations.
pub type Result<T, E = Error> = std::result::Result<T, E>;

type Source = Box<dyn std::error::Error + Send + Sync>;

/// What kind of failure it is. The names are stable and the same on every door.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    Invalid,
    NotFound,
    NotOwner,
    StaleEpoch,
    LentOut,
    Conflict,
    LimitExceeded,
    ImageNotFound,
    ImageNotAllowed,
    NotAvailable,
    Unsupported,
    StartFailed,
    ExecutionFailed,
    Timeout,
    Aborted,
    EgressDenied,
    /// The token is missing, invalid or too weak, or the request is above the ceiling of its door.
    Denied,
    Internal,
}

impl Kind {
    /// Returns the name every door and every span calls it by.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Invalid => "invalid",
            Self::NotFound => "not_found",
            Self::NotOwner => "not_owner",
            Self::StaleEpoch => "stale_epoch",
            Self::LentOut => "lent_out",
            Self::Conflict => "conflict",
            Self::LimitExceeded => "limit_exceeded",
            Self::ImageNotFound => "image_not_found",
            Self::ImageNotAllowed => "image_not_allowed",
            Self::NotAvailable => "not_available",
            Self::Unsupported => "unsupported",
            Self::StartFailed => "start_failed",
            Self::ExecutionFailed => "execution_failed",
            Self::Timeout => "timeout",
            Self::Aborted => "aborted",
            Self::EgressDenied => "egress_denied",
            Self::Denied => "denied",
            Self::Internal => "internal",
        }
    }
}

/// A failed operation.
///
/// A command that fails, times out or is killed is not one of these; it is an outcome.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    pub kind: Kind,
    pub message: String,
    pub hint: Option<String>,
    pub details: Map<String, Value>,
    #[source]
    source: Option<Source>,
}

impl Error {
    /// Makes an error that says what was attempted and on what. Escapes invisible characters, because the message may
    /// repeat text of strangers.
    pub fn new(kind: Kind, message: impl Into<String>) -> Self {
        let message = printable::message(&message.into());
        Self { kind, message, hint: None, details: Map::new(), source: None }
    }

    /// Refuses input: `what` was wrong with `field`.
    pub fn invalid(field: &str, what: impl std::fmt::Display) -> Self {
        Self::new(Kind::Invalid, format!("`{field}` {what}")).detail("field", field)
    }

    /// Reports a fault of ours or of the machine.
    pub fn internal(message: impl Into<String>, source: impl Into<Source>) -> Self {
        Self::new(Kind::Internal, message).caused_by(source)
    }

    /// Adds what the user can do about it.
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(printable::message(&hint.into()));
        self
    }

    /// Adds a fact for machines.
    pub fn detail(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.details.insert(name.into(), value.into());
        self
    }

    /// Chains the cause; doors print the chain, once.
    pub fn caused_by(mut self, source: impl Into<Source>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// Returns the message with its causes, outermost first.
    pub fn chain(&self) -> String {
        let mut text = self.message.clone();
        let mut cause = std::error::Error::source(self);
        while let Some(error) = cause {
            text.push_str(": ");
            text.push_str(&printable::message(&error.to_string()));
            cause = error.source();
        }
        text
    }

    /// Tells whether a full disk may be the cause. Where the error names no system call, any fault of ours may be due
    /// to it.
    pub fn may_lack_room(&self) -> bool {
        let mut cause = std::error::Error::source(self);
        while let Some(error) = cause {
            if let Some(number) =
                error.downcast_ref::<std::io::Error>().and_then(std::io::Error::raw_os_error)
            {
                return WANT_OF_ROOM.contains(&number);
            }
            cause = error.source();
        }
        self.details.contains_key(DISK_FULL) || matches!(self.kind, Kind::Internal | Kind::LimitExceeded)
    }

    /// Returns the object every door shows under `error`.
    pub fn to_json(&self) -> Value {
        json!({"error": {"kind": self.kind, "message": self.chain(), "hint": self.hint, "details": self.details}})
    }
}
