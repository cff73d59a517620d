//! Which addresses a registry may lead us to: those of the internet, and those the operator named.
//!
//! A registry answers with the address of a token server or of another host, and we go there from inside of the
//! operator's network. So the address is checked, the very one that is dialled, and not the name.

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ureq::config::Config;
use ureq::http::Uri;
use ureq::unversioned::resolver::{DefaultResolver, ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::NextTimeout;

use super::origin::Origin;

/// Looks names up, and refuses what they lead to unless it is public or the place was named by someone we trust.
#[derive(Debug)]
pub struct Guard {
    /// The registry itself.
    pub registry: Origin,
    /// `host[:port]` the operator lists.
    pub private: Vec<String>,
}

/// An address that is not gone to.
#[derive(Debug)]
pub struct Forbidden {
    pub place: String,
    pub address: IpAddr,
}

impl Resolver for Guard {
    fn resolve(
        &self,
        uri: &Uri,
        config: &Config,
        timeout: NextTimeout,
    ) -> Result<ResolvedSocketAddrs, ureq::Error> {
        let addresses = DefaultResolver::default().resolve(uri, config, timeout)?;
        let origin = Origin::of(uri).map_err(io::Error::other)?;
        if origin == self.registry || self.private.iter().any(|entry| origin.is_listed(entry)) {
            return Ok(addresses);
        }
        match addresses.iter().find(|address| !is_public(address.ip())) {
            None => Ok(addresses),
            Some(address) => {
                let forbidden = Forbidden { place: origin.place(), address: address.ip() };
                Err(io::Error::new(io::ErrorKind::PermissionDenied, forbidden).into())
            }
        }
    }
}

impl fmt::Display for Forbidden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is at {}, which is not an address of the internet", self.place, self.address)
    }
}

impl std::error::Error for Forbidden {}

/// Tells whether an address is one that anyone on the internet could have.
pub fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => match embedded(address) {
            Some(inner) => is_public_v4(inner),
            None => is_public_v6(address),
        },
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    /// Networks set aside by IANA: this host, private, shared, loopback, link-local, protocols, examples, relays,
    /// benchmarks, multicast, future.
    const SET_ASIDE: [([u8; 4], u32); 15] = [
        ([0, 0, 0, 0], 8),
        ([10, 0, 0, 0], 8),
        ([100, 64, 0, 0], 10),
        ([127, 0, 0, 0], 8),
        ([169, 254, 0, 0], 16),
        ([172, 16, 0, 0], 12),
        ([192, 0, 0, 0], 24),
        ([192, 0, 2, 0], 24),
        ([192, 88, 99, 0], 24),
        ([192, 168, 0, 0], 16),
        ([198, 18, 0, 0], 15),
        ([198, 51, 100, 0], 24),
        ([203, 0, 113, 0], 24),
        ([224, 0, 0, 0], 4),
        ([240, 0, 0, 0], 4),
    ];
    let bits = address.to_bits();
    !SET_ASIDE.iter().any(|(network, length)| (bits ^ u32::from_be_bytes(*network)) >> (32 - length) == 0)
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let [first, second, ..] = address.segments();
    let global = first & 0xe000 == 0x2000;
    // Protocols (Teredo among them), examples, 6to4: the last hides an address of the old kind.
    let set_aside = match first {
        0x2001 => second < 0x0200 || second == 0x0db8,
        0x2002 => true,
        0x3fff => second < 0x1000,
        _ => false,
    };
    global && !set_aside
}

/// Returns the old address inside a new one, where the kernel or a router would go to that.
fn embedded(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let segments = address.segments();
    let last = Ipv4Addr::from_bits(u32::from(segments[6]) << 16 | u32::from(segments[7]));
    let translated = segments[..6] == [0x64, 0xff9b, 0, 0, 0, 0];
    address.to_ipv4_mapped().or_else(|| translated.then_some(last))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_that_are_ours_alone_are_not_public() {
        for address in [
            "0.0.0.0",
            "10.1.2.3",
            "100.64.0.1",
            "127.0.0.1",
            "127.255.0.1",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.168.1.1",
            "192.0.0.192",
            "198.19.0.1",
            "224.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::ffff:127.0.0.1",
            "::ffff:169.254.169.254",
            "64:ff9b::a9fe:a9fe",
            "fe80::1",
            "fc00::1",
            "fd00:ec2::254",
            "ff02::1",
            "2002:7f00:1::",
            "2001::1",
            "2001:db8::1",
            "::127.0.0.1",
            "fec0::1",
        ] {
            assert!(!is_public(address.parse().expect("is an address")), "{address}");
        }
    }

    #[test]
    fn addresses_of_the_internet_are_public() {
        for address in
            ["1.1.1.1", "100.128.0.1", "172.32.0.1", "192.167.0.1", "2606:4700::1", "64:ff9b::101:101"]
        {
            assert!(is_public(address.parse().expect("is an address")), "{address}");
        }
    }
}
