//! A port of a sandbox and the local port that leads to it.

use std::str::FromStr;

use coracle::{Error, Kind, Result};

/// A port in the sandbox and a local one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ports {
    pub inside: u16,
    /// If absent, the same as inside, or a free one if that is taken.
    pub local: Option<u16>,
}

impl FromStr for Ports {
    type Err = Error;

    /// Reads `[LOCAL:]PORT`: the local port comes first, as for `ssh -L` and `docker run -p`.
    fn from_str(text: &str) -> Result<Self> {
        match text.split_once(':') {
            None => Ok(Self { inside: inner_port(text)?, local: None }),
            Some((local, inside)) => Ok(Self { inside: inner_port(inside)?, local: Some(port(local)?) }),
        }
    }
}

/// Reads `LOCAL[:PORT]`, with an optional address of this machine before it.
pub fn published(text: &str) -> Result<Ports> {
    let (address, ports) = match text.split(':').collect::<Vec<_>>().as_slice() {
        [_, _, _] => text.split_once(':').unwrap_or_default(),
        _ => ("127.0.0.1", text),
    };
    if !matches!(address, "127.0.0.1" | "localhost") {
        let message = format!("`{}` is not this machine alone", address.escape_debug());
        return Err(Error::new(Kind::Invalid, message)
            .hint("ports of sandboxes are reached at 127.0.0.1; put a proxy before it for others"));
    }
    let (local, inside) = ports.split_once(':').unwrap_or((ports, ports));
    Ok(Ports { inside: inner_port(inside)?, local: Some(port(local)?) })
}

fn inner_port(text: &str) -> Result<u16> {
    match port(text)? {
        0 => Err(Error::new(Kind::Invalid, "0 is no port of a sandbox")),
        port => Ok(port),
    }
}

fn port(text: &str) -> Result<u16> {
    text.parse().map_err(|_| {
        Error::new(Kind::Invalid, format!("`{}` is not a port", text.escape_debug()))
            .hint("ports are numbers from 1 to 65535")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_local_port_stands_first() {
        let ports = |inside, local| Some(Ports { inside, local });

        assert_eq!("80".parse().ok(), ports(80, None));
        assert_eq!("8080:80".parse().ok(), ports(80, Some(8080)));
        assert_eq!(published("8080").ok(), ports(8080, Some(8080)));
        assert_eq!(published("8080:80").ok(), ports(80, Some(8080)));
        assert_eq!(published("127.0.0.1:8080:80").ok(), ports(80, Some(8080)));
        for refused in ["", "x", "0", "80:x", "65536", "8080:0", "0.0.0.0:8080:80", "1:2:3:4", "80/udp"] {
            assert_eq!(published(refused).ok(), None, "{refused}");
        }
    }
}
