//! A connection a sandbox was not given, and why.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What was refused, as the log and every door show it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub struct Denial {
    /// The host that was asked for; one that is no host has its odd characters escaped.
    pub host: String,
    pub port: u16,
    pub reason: Reason,
}

/// Why a connection was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// No rule of the sandbox's network is about it.
    NotAllowed,
    /// It is no name or address everybody reads the same way.
    InvalidName,
    /// It leads to an address that is not anybody's on the internet.
    NotPublic,
    /// What was said on the connection names another host than the one it was asked for.
    NameMismatch,
    /// Something else than the web was spoken where only the web is allowed.
    Protocol,
    /// The name has no address.
    Unresolved,
    /// More connections or names than the operator allows.
    Limit,
}

impl Denial {
    /// What of a hostile name is kept.
    const HOST_MAX: usize = 256;

    /// Makes one of whatever was asked for.
    pub fn new(host: &str, port: u16, reason: Reason) -> Self {
        let host = host.escape_debug().take(Self::HOST_MAX).collect();
        Self { host, port, reason }
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
    /// Returns the name machines see.
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
