//! Where a sandbox's commands reach the network: the proxy, and a local address for each host that a rule names.
//!
//! The guest, which binds, and the proxy, which answers, both compute the list from the network the sandbox was made
//! with. So they only have to exchange an index.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::net::Ipv4Addr;

use super::Network;
use super::name::Name;
use super::rule::{Target, WEB, WEB_TLS};

/// Where the proxy speaks HTTP and SOCKS.
pub const PROXY: (Ipv4Addr, u16) = (Ipv4Addr::LOCALHOST, 3128);
/// Hosts for each value of an address's third part; the number of rules is bounded, so the last two parts suffice.
const HOSTS_PER_PART: usize = 250;

/// One address that commands connect to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listener {
    pub address: Ipv4Addr,
    pub port: u16,
    /// The host it stands for; none for the proxy.
    pub host: Option<Name>,
}

/// Returns the listeners of a network, the proxy first; empty if there is no network.
pub fn listeners(network: &Network) -> Vec<Listener> {
    let rules = match network {
        Network::None => return Vec::new(),
        Network::Open => &[],
        Network::Allow(rules) => rules.as_slice(),
    };
    let mut all = vec![Listener { address: PROXY.0, port: PROXY.1, host: None }];
    let mut addresses: BTreeMap<&Name, Ipv4Addr> = BTreeMap::new();
    for rule in rules {
        let Target::Name(name) = &rule.target else { continue };
        let count = addresses.len();
        let address = *addresses.entry(name).or_insert_with(|| nth(count));
        let ports = rule.port.map_or([Some(WEB), Some(WEB_TLS)], |port| [Some(port), None]);
        for port in ports.into_iter().flatten() {
            let listener = Listener { address, port, host: Some(name.clone()) };
            if !all.contains(&listener) {
                all.push(listener);
            }
        }
    }
    all
}

/// Returns the lines of `/etc/hosts` that map names to their listeners.
pub fn hosts_lines(listeners: &[Listener]) -> String {
    let mut lines = String::new();
    let mut last = None;
    let named = listeners.iter().filter_map(|listener| Some((listener.host.as_ref()?, listener.address)));
    let mut named: Vec<_> = named.collect();
    named.sort();
    for (name, address) in named {
        if last.replace(name) != Some(name) {
            // Writing to a string cannot fail.
            let _ = writeln!(lines, "{address}\t{name}");
        }
    }
    lines
}

fn nth(index: usize) -> Ipv4Addr {
    let (part, last) = (index / HOSTS_PER_PART, index % HOSTS_PER_PART);
    Ipv4Addr::new(127, 77, part as u8, last as u8 + 1)
}
