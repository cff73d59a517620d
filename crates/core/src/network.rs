//! What a sandbox may reach: nothing, the hosts on a list, or the internet. Pure: names in, decisions out. The egress
//! proxy asks twice: for the name, and for the address it resolved to.

pub mod address;
pub mod denial;
pub mod listener;
pub mod name;
pub mod proxy;
pub mod rule;

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

pub use self::address::Cidr;
pub use self::denial::{Denial, Reason};
pub use self::listener::Listener;
pub use self::name::{Host, Name};
pub use self::rule::{Rule, Speech};
use crate::error::{Error, Result};

/// More than people keep in a list, and few enough to bind a listener for each.
pub const RULES_MAX: usize = 256;

/// What a sandbox may reach.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Network {
    #[default]
    None,
    Allow(Vec<Rule>),
    /// Every public address.
    Open,
}

impl Network {
    /// Returns which protocol the sandbox may use with a host at a port; `None` if it may not connect.
    pub fn admits(&self, host: &Host, port: u16) -> Option<Speech> {
        match self {
            Self::None => None,
            Self::Open => Some(Speech::Anything),
            Self::Allow(rules) => rules.iter().filter_map(|rule| rule.admits(host, port)).max(),
        }
    }

    /// Tells whether the proxy may dial an address that a name resolved to: a public one, or one that a rule lists as
    /// an address.
    pub fn admits_address(&self, address: IpAddr, port: u16) -> bool {
        !self.is_none() && (self.lists_address(address, port) || address::is_public(address))
    }

    /// Tells whether a rule lists this address explicitly.
    pub fn lists_address(&self, address: IpAddr, port: u16) -> bool {
        match self {
            Self::None | Self::Open => false,
            Self::Allow(rules) => rules.iter().any(|rule| rule.lists(address, port)),
        }
    }

    /// Tells whether `other` admits everything this network admits.
    pub fn is_within(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::None, _) => true,
            (Self::Open, Self::Open) => true,
            (Self::Open, Self::Allow(_) | Self::None) | (Self::Allow(_), Self::None) => false,
            (Self::Allow(rules), Self::Allow(others)) => {
                rules.iter().all(|rule| others.iter().any(|other| rule.is_within(other)))
            }
            (Self::Allow(rules), Self::Open) => rules.iter().all(is_of_the_internet),
        }
    }

    pub fn is_none(&self) -> bool {
        *self == Self::None
    }
}

/// A rule for a private address admits what `open` does not.
fn is_of_the_internet(rule: &Rule) -> bool {
    match &rule.target {
        rule::Target::Name(_) | rule::Target::Below(_) => true,
        rule::Target::Network(network) => network.is_public(),
    }
}

impl FromStr for Network {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match (text, text.strip_prefix("allow=")) {
            ("none", _) => Ok(Self::None),
            ("open", _) => Ok(Self::Open),
            (_, Some(list)) => rules(list).map(Self::Allow),
            (_, None) => {
                let shown: String = text.escape_debug().take(64).collect();
                let refused = Error::invalid(
                    "network",
                    format!("is `{shown}` and not `none`, `open` or `allow=HOST,…`"),
                );
                Err(match meant(text) {
                    Some(hint) => refused.hint(hint),
                    None => refused,
                })
            }
        }
    }
}

/// Returns what to write for a network of another tool, or for hosts alone.
fn meant(text: &str) -> Option<String> {
    match text.to_ascii_lowercase().as_str() {
        "host" | "bridge" => Some(
            "a sandbox never has the machine's own network; `open` reaches every public address".to_owned(),
        ),
        "none" | "off" | "no" => Some("did you mean `none`?".to_owned()),
        "open" | "on" | "all" | "any" => Some("did you mean `open`?".to_owned()),
        "allow" => None,
        _ => {
            let hosts: Option<Vec<_>> = text.split(',').map(host_alone).collect();
            hosts.map(|hosts| format!("did you mean `allow={}`?", hosts.join(",")))
        }
    }
}

/// Returns the rule for a host that was written as such, or as a URL.
fn host_alone(text: &str) -> Option<String> {
    let rest = text.split_once("://").map_or(text, |(_, rest)| rest);
    let rule: Rule = rest.split('/').next()?.parse().ok()?;
    matches!(rule.target, rule::Target::Name(_)).then(|| rule.to_string())
}

fn rules(list: &str) -> Result<Vec<Rule>> {
    let mut rules = Vec::new();
    for text in list.split(',') {
        let rule: Rule = text.parse().map_err(|odd| {
            let shown: String = text.escape_debug().take(64).collect();
            let hint = match host_alone(text) {
                Some(host) => format!("write the host alone: `allow={host}`"),
                None => "write `allow=HOST[:PORT],*.HOST,ADDRESS,NETWORK/LENGTH`, addresses with colons in brackets"
                    .to_owned(),
            };
            Error::invalid("network", format!("allows `{shown}`, which {odd}")).hint(hint)
        })?;
        if rules.len() == RULES_MAX {
            return Err(Error::invalid("network", format!("allows more than {RULES_MAX} hosts")));
        }
        if !rules.contains(&rule) {
            rules.push(rule);
        }
    }
    Ok(rules)
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("none"),
            Self::Open => f.write_str("open"),
            Self::Allow(rules) => {
                let rules: Vec<_> = rules.iter().map(ToString::to_string).collect();
                write!(f, "allow={}", rules.join(","))
            }
        }
    }
}

impl Serialize for Network {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Network {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

/// What the operator allows of the network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NetworkPolicy {
    /// The most any sandbox may have.
    pub max: Network,
    /// Networks that are not public and that a rule may name all the same.
    pub private: Vec<Cidr>,
    pub caps: Caps,
}

/// What one sandbox may use of the network at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Caps {
    pub connections: usize,
    /// Names looked up for the first time, per second.
    pub names_per_second: u32,
    /// Millions of bits per second, both ways together; unbounded if absent.
    pub bandwidth_mbit: Option<u32>,
}

impl Default for NetworkPolicy {
    fn default() -> Self {
        Self { max: Network::Open, private: Vec::new(), caps: Caps::default() }
    }
}

impl Default for Caps {
    fn default() -> Self {
        Self { connections: 256, names_per_second: 20, bandwidth_mbit: None }
    }
}

impl NetworkPolicy {
    /// Reads what a caller wrote and refuses what the operator does not allow.
    pub fn resolve(&self, written: Option<&str>) -> Result<Network> {
        let network: Network = written.unwrap_or("none").parse()?;
        let private = |rule: &&Rule| !is_of_the_internet(rule) && !self.permits_private(rule);
        if let Network::Allow(rules) = &network
            && let Some(rule) = rules.iter().find(private)
        {
            return Err(Error::invalid("network", format!("allows `{rule}`, which is not public"))
                .hint("the operator can list such networks in `network.private`"));
        }
        match network.is_within(&self.max) || self.is_excepted(&network) {
            true => Ok(network),
            false => {
                Err(Error::invalid("network", format!("is more than the operator allows: `{}`", self.max))
                    .hint("ask for less, or have the operator raise `network.max`"))
            }
        }
    }

    /// Private networks the operator lists exceed `open`, which means the internet only.
    fn is_excepted(&self, network: &Network) -> bool {
        match (network, &self.max) {
            (Network::Allow(_), Network::Open) => true,
            (Network::None | Network::Open | Network::Allow(_), _) => false,
        }
    }

    fn permits_private(&self, rule: &Rule) -> bool {
        match &rule.target {
            rule::Target::Network(network) => self.private.iter().any(|allowed| allowed.holds(network)),
            rule::Target::Name(_) | rule::Target::Below(_) => true,
        }
    }
}
