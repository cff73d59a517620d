//! Checks the addresses a registry leads us to: only public ones, and those the operator named.
//!
//! A registry answers with the address of a token server or of another host, and we connect to it from inside the
//! operator's network. So we check the very address we dial, not the name.

use std::fmt;
use std::io;
use std::net::IpAddr;

use coracle_core::network::address::is_public;
use ureq::config::Config;
use ureq::http::Uri;
use ureq::unversioned::resolver::{DefaultResolver, ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::NextTimeout;

use super::origin::Origin;

/// Looks names up, and refuses addresses that are not public unless the user or the operator named the host.
#[derive(Debug)]
pub struct Guard {
    /// The registry itself.
    pub registry: Origin,
    /// `host[:port]` that the operator lists.
    pub private: Vec<String>,
}

/// An address we refuse to connect to.
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
        write!(f, "`{}` is at {}, which is not a public address", self.place, self.address)
    }
}

impl std::error::Error for Forbidden {}
