//! Connects to an authority: looks the name up here, checks every address, and dials only a checked one.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use coracle_core::network::{Host, Reason, Speech};

use crate::head::Authority;
use crate::scope::{Passage, Scope};
use crate::weak::{self, Wall};

/// How long connecting may take, over all addresses of a name.
const PATIENCE: Duration = Duration::from_secs(10);
/// The most addresses of a name to consider; an attacker's name server may send many.
const ADDRESSES_MAX: usize = 64;

/// An established connection.
#[derive(Debug)]
pub struct Dialled<'a> {
    pub stream: TcpStream,
    /// Held while the connection is carried, so that narrowing finds it.
    _passage: Passage<'a>,
}

/// Why there is no connection.
#[derive(Debug)]
pub enum Refusal {
    Denied(Reason),
    Unreachable(io::Error),
}

impl From<io::Error> for Refusal {
    fn from(error: io::Error) -> Self {
        Self::Unreachable(error)
    }
}

/// Connects to a host the sandbox may reach. The caller has checked that it may; this checks again after
/// connecting, because the network may have been narrowed meanwhile.
pub fn dial<'a>(
    scope: &'a Scope,
    authority: &Authority,
    speech: Speech,
    client: &UnixStream,
) -> Result<Dialled<'a>, Refusal> {
    let addresses = resolve(scope, authority)?;
    let found = addresses.len();
    let admitted: Vec<_> =
        addresses.into_iter().filter(|address| scope.admits_address(*address, authority.port)).collect();
    if found > 0 && admitted.is_empty() {
        return Err(Refusal::Denied(Reason::NotPublic));
    }
    let stream = connect(&admitted, authority.port)?;
    let _ = stream.set_nodelay(true);
    // Keepalive notices a server that vanished, at some point.
    let _ = rustix::net::sockopt::set_socket_keepalive(&stream, true);
    let passage = scope.flow(authority, speech, client, &stream)?.map_err(Refusal::Denied)?;
    Ok(Dialled { stream, _passage: passage })
}

fn resolve(scope: &Scope, authority: &Authority) -> Result<Vec<IpAddr>, Refusal> {
    let name = match &authority.host {
        Host::Address(address) => return Ok(vec![*address]),
        Host::Name(name) => name,
    };
    if !scope.names.admit(name) && !weak::off(Wall::EgressCaps) {
        return Err(Refusal::Denied(Reason::Limit));
    }
    let found = (name.as_str(), authority.port).to_socket_addrs();
    let found = found.map_err(|_| Refusal::Denied(Reason::Unresolved))?;
    let mut addresses: Vec<IpAddr> = Vec::new();
    for address in found.map(|place| place.ip().to_canonical()).take(ADDRESSES_MAX) {
        if !addresses.contains(&address) {
            addresses.push(address);
        }
    }
    match addresses.is_empty() {
        true => Err(Refusal::Denied(Reason::Unresolved)),
        false => Ok(addresses),
    }
}

/// Tries one address after the other, each with its share of the time.
fn connect(addresses: &[IpAddr], port: u16) -> io::Result<TcpStream> {
    let deadline = Instant::now() + PATIENCE;
    let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
    for (tried, address) in addresses.iter().enumerate() {
        let left = deadline.saturating_duration_since(Instant::now());
        let share = left / (addresses.len() - tried) as u32;
        if share.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        match TcpStream::connect_timeout(&SocketAddr::new(*address, port), share) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}
