//! The part of SOCKS5 the proxy supports: no authentication, `CONNECT`, a name or an address.

use std::net::{Ipv4Addr, Ipv6Addr};

use coracle_core::network::Host;

use crate::head::Authority;
use crate::weak;

pub const VERSION: u8 = 5;
const CONNECT: u8 = 1;
const NO_AUTHENTICATION: u8 = 0;

/// The answer to the first message.
pub const WELCOME: [u8; 2] = [VERSION, NO_AUTHENTICATION];
pub const NO_METHOD: [u8; 2] = [VERSION, 0xff];

/// The answer to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    Granted = 0,
    Failed = 1,
    NotAllowed = 2,
    Unreachable = 4,
    UnknownCommand = 7,
    UnknownAddress = 8,
}

impl Answer {
    /// Returns the answer as sent; no client needs the address in it.
    pub fn bytes(self) -> [u8; 10] {
        [VERSION, self as u8, 0, 1, 0, 0, 0, 0, 0, 0]
    }
}

/// The result of reading the bytes so far.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Read<T> {
    /// More bytes have to come.
    Short,
    /// The message, and how many bytes it took.
    Whole(T, usize),
}

/// Reads the first message: whether the client accepts no authentication.
pub fn greeting(bytes: &[u8]) -> Read<bool> {
    match bytes {
        [_, count, methods @ ..] if methods.len() >= usize::from(*count) => {
            let methods = &methods[..usize::from(*count)];
            Read::Whole(methods.contains(&NO_AUTHENTICATION), 2 + methods.len())
        }
        _ => Read::Short,
    }
}

/// Why the proxy refuses a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Odd {
    Answer(Answer),
    Host { written: Vec<u8>, port: u16 },
}

/// Reads the second message: where to connect.
pub fn request(bytes: &[u8]) -> Result<Read<Authority>, Odd> {
    let (kind, rest) = match bytes {
        [version, command, reserved, kind, rest @ ..] => match (*version, *command, *reserved) {
            (VERSION, CONNECT, 0) => (*kind, rest),
            (VERSION, _, 0) => return Err(Odd::Answer(Answer::UnknownCommand)),
            _ => return Err(Odd::Answer(Answer::Failed)),
        },
        _ => return Ok(Read::Short),
    };
    let (host, before) = match (kind, rest) {
        (1, [a, b, c, d, ..]) => (Ok(Host::of_address(Ipv4Addr::new(*a, *b, *c, *d).into())), 4),
        (4, _) if rest.len() >= 16 => {
            let octets: [u8; 16] = rest[..16].try_into().unwrap_or_default();
            (Ok(Host::of_address(Ipv6Addr::from(octets).into())), 16)
        }
        (3, [length, name @ ..]) if name.len() >= usize::from(*length) => {
            let name = &name[..usize::from(*length)];
            let host = Host::read(name).or_else(|_| weak::misread(name).ok_or_else(|| name.to_vec()));
            (host, 1 + name.len())
        }
        (1 | 3 | 4, _) => return Ok(Read::Short),
        _ => return Err(Odd::Answer(Answer::UnknownAddress)),
    };
    let Some([high, low]) = rest.get(before..before + 2) else { return Ok(Read::Short) };
    let port = u16::from_be_bytes([*high, *low]);
    let host = host.map_err(|written| Odd::Host { written, port })?;
    Ok(Read::Whole(Authority { host, port }, 4 + before + 2))
}
