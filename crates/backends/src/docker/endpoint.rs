//! Where a container engine listens, as people write it: `unix://`, `tcp://`, `http://`, `https://`, `ssh://`.
//!
//! Strict: refuses what it does not understand to the last byte, because parts of it become arguments of programs.

mod context;
mod engines;
mod ssh;

use std::fmt;
use std::net::Ipv6Addr;
use std::path::{Path, PathBuf};

use coracle_core::{Error, Kind, Result};

pub use self::engines::{Engines, docker, podman};
pub use self::ssh::{SshPlace, remote_socket};

/// The kernel's socket address has 108 bytes, the last of them zero.
pub const SOCKET_PATH_MAX: usize = 107;
/// Longer than any name that can be looked up (253 bytes), shorter than anything that could hurt.
const TEXT_MAX: usize = 512;
const PLAIN_PORT: u16 = 2375;
const TLS_PORT: u16 = 2376;

/// Where a container engine listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Endpoint {
    Unix(PathBuf),
    /// Without any protection: anyone who can read the network traffic controls the container engine.
    Tcp {
        host: String,
        port: u16,
    },
    /// Both sides present a certificate: `ca.pem`, `cert.pem` and `key.pem` in that directory.
    Tls {
        host: String,
        port: u16,
        certificates: PathBuf,
    },
    Ssh(SshPlace),
}

impl Endpoint {
    /// Reads an endpoint that needs no certificates.
    pub fn parse(text: &str) -> Result<Self> {
        Self::secured(text, None)
    }

    /// Reads an endpoint; with certificates, `tcp://` means TLS, as it does for Docker.
    pub fn secured(text: &str, certificates: Option<&Path>) -> Result<Self> {
        if text.len() > TEXT_MAX {
            return Err(refuse(
                &text[..text.floor_char_boundary(64)],
                format!("is longer than {TEXT_MAX} bytes"),
            ));
        }
        let (scheme, rest) = text.split_once("://").ok_or_else(|| refuse(text, "is not a url"))?;
        match scheme {
            "unix" => socket(text, rest).map(Self::Unix),
            "ssh" => SshPlace::parse(text, rest).map(Self::Ssh),
            "http" => plain(text, rest),
            "tcp" => certificates.map_or_else(|| plain(text, rest), |directory| tls(text, rest, directory)),
            "https" => tls(text, rest, certificates.ok_or_else(|| without_certificates(text))?),
            _ => Err(refuse(text, "has a scheme that no engine uses")),
        }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix://{}", path.display()),
            Self::Tcp { host, port } => write!(f, "tcp://{}:{port}", bracketed(host)),
            Self::Tls { host, port, certificates: _ } => write!(f, "https://{}:{port}", bracketed(host)),
            Self::Ssh(place) => place.fmt(f),
        }
    }
}

fn plain(text: &str, rest: &str) -> Result<Endpoint> {
    let (host, port) = authority(text, rest)?;
    Ok(Endpoint::Tcp { host, port: port.unwrap_or(PLAIN_PORT) })
}

fn tls(text: &str, rest: &str, certificates: &Path) -> Result<Endpoint> {
    let (host, port) = authority(text, rest)?;
    Ok(Endpoint::Tls { host, port: port.unwrap_or(TLS_PORT), certificates: certificates.to_owned() })
}

/// Reads `host[:port]`, which at most one `/` may follow.
fn authority(text: &str, rest: &str) -> Result<(String, Option<u16>)> {
    let rest = rest.strip_suffix('/').unwrap_or(rest);
    if rest.contains('@') {
        return Err(refuse(text, "names a user, which only `ssh://` accepts"));
    }
    host_and_port(text, rest)
}

/// Reads `host[:port]`; a host with colons is in brackets.
fn host_and_port(text: &str, rest: &str) -> Result<(String, Option<u16>)> {
    let (host, port) = match rest.strip_prefix('[') {
        Some(rest) => {
            let (host, port) =
                rest.split_once(']').ok_or_else(|| refuse(text, "has a bracket without its other half"))?;
            host.parse::<Ipv6Addr>().map_err(|_| refuse(text, "has no IPv6 address in its brackets"))?;
            (host, port)
        }
        None => {
            let host = rest.split(':').next().unwrap_or_default();
            plain_word(host).then_some(()).ok_or_else(|| refuse(text, "has an invalid host"))?;
            (host, &rest[host.len()..])
        }
    };
    Ok((host.to_owned(), port_of(text, port)?))
}

fn port_of(text: &str, port: &str) -> Result<Option<u16>> {
    if port.is_empty() {
        return Ok(None);
    }
    let digits = port.strip_prefix(':').filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()));
    let number = digits.and_then(|digits| digits.parse().ok()).filter(|number| *number != 0);
    number.map(Some).ok_or_else(|| refuse(text, "has no port from 1 to 65535 after its host"))
}

/// Letters, digits, `.`, `_` and `-`, not first: cannot be an option, a token of ssh or special to a shell.
fn plain_word(word: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    !word.is_empty() && !word.starts_with('-') && word.bytes().all(plain)
}

/// Reads the path of a socket.
fn socket(text: &str, path: &str) -> Result<PathBuf> {
    let fits = path.len() <= SOCKET_PATH_MAX && !path.bytes().any(|byte| byte.is_ascii_control());
    match path.starts_with('/') && !path.ends_with('/') && fits {
        true => Ok(path.into()),
        false => Err(refuse(
            text,
            format!("has no absolute path of a socket, at most {SOCKET_PATH_MAX} bytes long"),
        )),
    }
}

fn bracketed(host: &str) -> String {
    match host.contains(':') {
        true => format!("[{host}]"),
        false => host.to_owned(),
    }
}

fn refuse(text: &str, what: impl fmt::Display) -> Error {
    Error::new(Kind::Invalid, format!("`{}` {what}", text.escape_debug()))
        .hint("engines are at `unix:///path`, `tcp://host:port`, `https://host:port` or `ssh://[user@]host[:port][/path]`")
        .detail("endpoint", text)
}

fn without_certificates(text: &str) -> Error {
    refuse(text, "needs certificates, and none are named").hint(
        "name the directory of `ca.pem`, `cert.pem` and `key.pem` with DOCKER_CERT_PATH and set DOCKER_TLS_VERIFY=1",
    )
}

#[cfg(test)]
mod tests;
