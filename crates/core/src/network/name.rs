//! The one way a host is read, wherever it is written: in a rule, a proxy request, a `Host` header or a server name.
//!
//! Two readers who understand a name differently are a hole, so whatever could be understood in more than one way is
//! refused: no escapes, no user parts, nothing outside ASCII, no numbers that some resolvers take for addresses.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// What DNS allows for a whole name and for one label of it.
const NAME_MAX: usize = 253;
const LABEL_MAX: usize = 63;

/// A name or an address, in the only form there is of it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Host {
    Name(Name),
    Address(IpAddr),
}

/// A domain name: lower case, no dot at the end.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(String);

/// Text that is no host, or not one everybody would understand the same way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("is no name or address everybody reads the same way")]
pub struct Odd;

impl Host {
    /// Reads bytes as they came over a wire.
    pub fn read(bytes: &[u8]) -> Result<Self, Odd> {
        std::str::from_utf8(bytes).map_err(|_| Odd)?.parse()
    }

    /// Takes an address that came as a number. One of the old kind written in the new form is that of the old kind.
    pub fn of_address(address: IpAddr) -> Self {
        Self::Address(address.to_canonical())
    }
}

impl FromStr for Host {
    type Err = Odd;

    fn from_str(text: &str) -> Result<Self, Odd> {
        if let Some(inner) = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            // The parser takes no zone; brackets around an old address it does not take either.
            return inner
                .parse::<Ipv6Addr>()
                .map(|address| Self::of_address(address.into()))
                .map_err(|_| Odd);
        }
        // Leading zeros and missing parts are refused by this parser, and then by the check for numbers below.
        if let Ok(address) = text.parse::<Ipv4Addr>() {
            return Ok(Self::Address(address.into()));
        }
        text.parse().map(Self::Name)
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => name.fmt(f),
            Self::Address(IpAddr::V4(address)) => address.fmt(f),
            Self::Address(IpAddr::V6(address)) => write!(f, "[{address}]"),
        }
    }
}

impl Name {
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Tells whether this name lies below another, at any depth.
    pub fn is_below(&self, parent: &Self) -> bool {
        self.0.strip_suffix(&parent.0).is_some_and(|rest| rest.ends_with('.'))
    }
}

impl FromStr for Name {
    type Err = Odd;

    fn from_str(text: &str) -> Result<Self, Odd> {
        // One dot at the end says that the name is complete; ours always are.
        let text = text.strip_suffix('.').unwrap_or(text);
        let labels = || text.split('.');
        let last = labels().next_back().unwrap_or_default();
        match text.len() <= NAME_MAX && labels().all(is_label) && !is_number(last) {
            true => Ok(Self(text.to_ascii_lowercase())),
            false => Err(Odd),
        }
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Underscores are in no name of a host by the book, and in many in practice; no reader takes them for anything else.
fn is_label(label: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    (1..=LABEL_MAX).contains(&label.len())
        && label.bytes().all(plain)
        && !label.starts_with('-')
        && !label.ends_with('-')
}

/// Tells whether a name that ends in this would be taken for an address by `inet_aton` and those who follow it.
fn is_number(label: &str) -> bool {
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let hexadecimal = label.strip_prefix("0x").or_else(|| label.strip_prefix("0X"));
    digits(label) || hexadecimal.is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_hexdigit()))
}
