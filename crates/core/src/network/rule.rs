//! One thing a sandbox may reach: `HOST`, `HOST:PORT`, `*.HOST`, an address or a network.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use super::address::Cidr;
use super::name::{Host, Name, Odd};

/// The ports of a rule that names none.
pub const WEB: u16 = 80;
pub const WEB_TLS: u16 = 443;

/// A destination, and its port.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rule {
    pub target: Target,
    /// If absent: the ports of the web, and only HTTP and TLS there.
    pub port: Option<u16>,
}

/// The destination of a rule.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Target {
    Name(Name),
    /// Every name below this one, and not the name itself.
    Below(Name),
    Network(Cidr),
}

/// The protocol a connection may carry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Speech {
    /// Plain HTTP to the named host.
    Http,
    /// TLS to the named host.
    Tls,
    Anything,
}

impl Rule {
    /// Returns the protocol the rule allows there; `None` if the rule does not cover it.
    pub fn admits(&self, host: &Host, port: u16) -> Option<Speech> {
        self.speech(port).filter(|_| self.target.covers(host))
    }

    /// Tells whether the rule lists this address explicitly, at this port.
    pub fn lists(&self, address: IpAddr, port: u16) -> bool {
        let listed = matches!(&self.target, Target::Network(network) if network.contains(address));
        listed && self.speech(port).is_some()
    }

    /// Tells whether `other` admits everything this rule admits.
    pub fn is_within(&self, other: &Self) -> bool {
        let ports = match (self.port, other.port) {
            (None, None) => true,
            (Some(port), Some(others)) => port == others,
            // A rule with a port number allows any protocol there, which is more.
            (Some(_), None) | (None, Some(_)) => false,
        };
        ports && self.target.is_within(&other.target)
    }

    fn speech(&self, port: u16) -> Option<Speech> {
        match (self.port, port) {
            (Some(own), port) => (own == port).then_some(Speech::Anything),
            (None, WEB) => Some(Speech::Http),
            (None, WEB_TLS) => Some(Speech::Tls),
            (None, _) => None,
        }
    }
}

impl Target {
    fn covers(&self, host: &Host) -> bool {
        match (self, host) {
            (Self::Name(own), Host::Name(name)) => own == name,
            (Self::Below(parent), Host::Name(name)) => name.is_below(parent),
            (Self::Network(network), Host::Address(address)) => network.contains(*address),
            (Self::Name(_) | Self::Below(_), Host::Address(_)) | (Self::Network(_), Host::Name(_)) => false,
        }
    }

    fn is_within(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Name(own), Self::Name(others)) => own == others,
            (Self::Name(own), Self::Below(parent)) => own.is_below(parent),
            (Self::Below(own), Self::Below(parent)) => own == parent || own.is_below(parent),
            (Self::Network(own), Self::Network(others)) => others.holds(own),
            (Self::Below(_), Self::Name(_))
            | (Self::Network(_), Self::Name(_) | Self::Below(_))
            | (Self::Name(_) | Self::Below(_), Self::Network(_)) => false,
        }
    }
}

impl FromStr for Rule {
    type Err = Odd;

    fn from_str(text: &str) -> Result<Self, Odd> {
        let (target, port) = split_port(text)?;
        if let Some(parent) = target.strip_prefix("*.") {
            return Ok(Self { target: Target::Below(parent.parse()?), port });
        }
        if target.contains('/') {
            let network = target.parse().map_err(|_| Odd)?;
            return Ok(Self { target: Target::Network(network), port });
        }
        let target = match target.parse()? {
            Host::Name(name) => Target::Name(name),
            Host::Address(address) => Target::Network(Cidr::of(address)),
        };
        Ok(Self { target, port })
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.target {
            Target::Name(name) => write!(f, "{name}")?,
            Target::Below(parent) => write!(f, "*.{parent}")?,
            Target::Network(network) => write!(f, "{network}")?,
        }
        self.port.map_or(Ok(()), |port| write!(f, ":{port}"))
    }
}

/// Splits `HOST[:PORT]`; the host may be in brackets. Used for rules and for authorities alike.
pub fn split_port(text: &str) -> Result<(&str, Option<u16>), Odd> {
    // Colons inside brackets belong to the address; a network's length follows them.
    let behind = text.rfind(']').map_or(0, |bracket| bracket + 1);
    match text[behind..].split_once(':') {
        None => Ok((text, None)),
        Some((before, port)) => Ok((&text[..behind + before.len()], Some(read_port(port)?))),
    }
}

/// Reads digits only: no sign, no space, no leading zero, not 0.
fn read_port(text: &str) -> Result<u16, Odd> {
    let plain = text.bytes().all(|byte| byte.is_ascii_digit()) && !text.starts_with('0');
    text.parse().ok().filter(|_| plain).ok_or(Odd)
}
