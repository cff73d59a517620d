//! Settings about the network of sandboxes: the most any sandbox may have, and its caps.

use coracle_core::network::{Caps, Cidr, Network, NetworkPolicy};
use coracle_core::{Error, Result};

use super::layers::{Found, Layers};
use super::{Setting, setting};

/// Each connection is a thread and descriptors of a keeper; more would exhaust the keeper.
const CONNECTIONS_MAX: u32 = 256;

/// All settings about the network, resolved.
#[derive(Debug)]
pub struct NetworkSettings {
    max: Found<Network>,
    private: Found<Vec<Cidr>>,
    connections: Found<u32>,
    names_per_second: Found<u32>,
    bandwidth_mbit: Found<Option<u32>>,
}

impl NetworkSettings {
    /// Resolves every setting and refuses text that is no network, and numbers out of range.
    pub(super) fn from(layers: &Layers<'_>) -> Result<Self> {
        let caps = Caps::default();
        Ok(Self {
            max: layers
                .of_file(|file| file.network.max.clone(), "open".to_owned())
                .read(|text| text.parse::<Network>())?,
            private: layers
                .of_file(|file| file.network.private.clone(), Vec::new())
                .read(|list| list.iter().map(|text| network(text)).collect())?,
            connections: layers
                .of_file(|file| file.network.connections, caps.connections as u32)
                .checked(|count| at_least_one("network.connections", *count, CONNECTIONS_MAX))?,
            names_per_second: layers
                .of_file(|file| file.network.names_per_second, caps.names_per_second)
                .checked(|count| at_least_one("network.names_per_second", *count, u32::MAX))?,
            bandwidth_mbit: layers.of_file(|file| file.network.bandwidth_mbit.map(Some), None).checked(
                |rate| rate.map_or(Ok(()), |rate| at_least_one("network.bandwidth_mbit", rate, u32::MAX)),
            )?,
        })
    }

    /// Returns the operator's rules.
    pub fn policy(&self) -> NetworkPolicy {
        NetworkPolicy {
            max: self.max.value.clone(),
            private: self.private.value.clone(),
            caps: Caps {
                connections: self.connections.value as usize,
                names_per_second: self.names_per_second.value,
                bandwidth_mbit: self.bandwidth_mbit.value,
            },
        }
    }

    /// Returns every setting for display.
    pub fn settings(&self) -> Vec<Setting> {
        let private: Vec<_> = self.private.value.iter().map(ToString::to_string).collect();
        let private = if private.is_empty() { "none".to_owned() } else { private.join(", ") };
        let rate = self.bandwidth_mbit.value.map_or("unlimited".to_owned(), |rate| rate.to_string());
        vec![
            setting("network.max", self.max.value.to_string(), &self.max.source),
            setting("network.private", private, &self.private.source),
            setting("network.connections", self.connections.value.to_string(), &self.connections.source),
            setting(
                "network.names_per_second",
                self.names_per_second.value.to_string(),
                &self.names_per_second.source,
            ),
            setting("network.bandwidth_mbit", rate, &self.bandwidth_mbit.source),
        ]
    }
}

/// Parses a network, or an address as a network of one.
fn network(text: &str) -> Result<Cidr> {
    let alone = || Some(Cidr::of(text.parse().ok()?));
    text.parse().ok().or_else(alone).ok_or_else(|| {
        Error::invalid(
            "network.private",
            format!("holds `{}`, no network as in `10.0.0.0/8`", text.escape_debug()),
        )
    })
}

fn at_least_one(field: &str, count: u32, max: u32) -> Result<()> {
    match (1..=max).contains(&count) {
        true => Ok(()),
        false => Err(Error::invalid(field, format!("is {count}, outside 1 to {max}"))),
    }
}
