//! A refused connection of a sandbox, and why.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The refused connection, as the log and every door show it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub struct Denial {
    /// The host the command asked for; odd characters are escaped if it is no valid host.
    pub host: String,
    pub port: u16,
    pub reason: Reason,
}

/// Why a connection was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// No rule of the sandbox's network covers the host.
    NotAllowed,
    /// The name or address can be read in more than one way.
    InvalidName,
    /// It resolves to an address that is not public.
    NotPublic,
    /// The `Host` header or TLS server name names another host than the one the command connected to.
    NameMismatch,
    /// The connection carries something other than HTTP or TLS where only these are allowed.
    Protocol,
    /// The name has no address.
    Unresolved,
    /// The sandbox uses more connections or names than the operator allows.
    Limit,
}

impl Denial {
    /// How much of a hostile name is kept.
    const HOST_MAX: usize = 256;

    /// Makes a denial for any host text a command sent.
    pub fn new(host: &str, port: u16, reason: Reason) -> Self {
        let host = host.escape_debug().take(Self::HOST_MAX).collect();
        Self { host, port, reason }
    }

    /// Returns what happened, for people: no rule refuses a name that has no address.
    pub fn told(&self) -> String {
        match self.reason {
            Reason::Unresolved => format!("could not reach {}:{}: {}", self.host, self.port, self.reason),
            Reason::NotAllowed
            | Reason::InvalidName
            | Reason::NotPublic
            | Reason::NameMismatch
            | Reason::Protocol
            | Reason::Limit => format!("the network was denied to {self}"),
        }
    }
}

impl fmt::Display for Denial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{} ({})", self.host, self.port, self.reason)
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotAllowed => "not allowed",
            Self::InvalidName => "not a valid name",
            Self::NotPublic => "not a public address",
            Self::NameMismatch => "another host was named on the connection",
            Self::Protocol => "not HTTP or TLS",
            Self::Unresolved => "the name has no address",
            Self::Limit => "too many connections or names",
        })
    }
}

impl Reason {
    /// Returns the name in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NotAllowed => "not_allowed",
            Self::InvalidName => "invalid_name",
            Self::NotPublic => "not_public",
            Self::NameMismatch => "name_mismatch",
            Self::Protocol => "protocol",
            Self::Unresolved => "unresolved",
            Self::Limit => "limit",
        }
    }
}
