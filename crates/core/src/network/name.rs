//! The single parser for hosts, wherever they appear: in a rule, a proxy request, a `Host` header or a TLS server
//! name.
//!
//! Two programs that read a name differently are a security hole, so ambiguous text is refused: no escapes, no user
//! parts, nothing outside ASCII, no numbers that some resolvers take for addresses.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// The limits of DNS for a whole name and for one label.
const NAME_MAX: usize = 253;
const LABEL_MAX: usize = 63;

/// A name or an address, in its one canonical form.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Host {
    Name(Name),
    Address(IpAddr),
}

/// A domain name: lower case, no dot at the end.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(String);

/// Text that is no host, or an ambiguous one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("is not an unambiguous host name or address")]
pub struct Odd;

impl Host {
    /// Reads bytes as they came over a wire.
    pub fn read(bytes: &[u8]) -> Result<Self, Odd> {
        std::str::from_utf8(bytes).map_err(|_| Odd)?.parse()
    }

    /// Takes an address that arrived in binary. An IPv4 address in IPv6 form becomes IPv4.
    pub fn of_address(address: IpAddr) -> Self {
        Self::Address(address.to_canonical())
    }
}

impl FromStr for Host {
    type Err = Odd;

    fn from_str(text: &str) -> Result<Self, Odd> {
        if let Some(inner) = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            // The parser accepts no zone, and no brackets around an IPv4 address.
            return inner
                .parse::<Ipv6Addr>()
                .map(|address| Self::of_address(address.into()))
                .map_err(|_| Odd);
        }
        // This parser refuses leading zeros and missing parts; the check for numbers below then refuses the whole
        // name.
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

/// Accepts underscores: the standard forbids them in host names, many have them, and no program reads them as
/// anything else.
fn is_label(label: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    (1..=LABEL_MAX).contains(&label.len())
        && label.bytes().all(plain)
        && !label.starts_with('-')
        && !label.ends_with('-')
}

/// Tells whether `inet_aton` and similar parsers would take a name that ends in this label for an address.
fn is_number(label: &str) -> bool {
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let hexadecimal = label.strip_prefix("0x").or_else(|| label.strip_prefix("0X"));
    digits(label) || hexadecimal.is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_hexdigit()))
}
