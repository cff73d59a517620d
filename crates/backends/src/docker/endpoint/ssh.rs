//! A container engine on another machine, reached by the user's own ssh:
//! `ssh://[user@]host[:port][/path/to/engine.sock]`.
//!
//! Host and user become arguments of ssh and, through the user's settings (`ProxyCommand … %h`), words of a shell.
//! The path becomes part of a forwarding, where ssh gives meaning to `:`, `[`, `\`, `%` and `$`.

use std::fmt;
use std::path::{Path, PathBuf};

use coracle_core::Result;

use super::{bracketed, host_and_port, plain_word, refuse, socket};

/// A container engine on another machine.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SshPlace {
    /// Without one, ssh's own settings decide.
    pub user: Option<String>,
    /// A name, an address, or an alias in ssh's own settings.
    pub host: String,
    pub port: Option<u16>,
    /// The container engine's socket there; without one, we ask the machine.
    pub socket: Option<PathBuf>,
}

impl SshPlace {
    /// Reads the text after `ssh://`.
    pub(super) fn parse(text: &str, rest: &str) -> Result<Self> {
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let (user, host) = match authority.rsplit_once('@') {
            Some((user, host)) => (Some(user), host),
            None => (None, authority),
        };
        if user.is_some_and(|user| !plain_word(user)) {
            return Err(refuse(text, "has an invalid user"));
        }
        let (host, port) = host_and_port(text, host)?;
        let socket = match path {
            "" | "/" => None,
            path => Some(remote_socket(path).ok_or_else(|| refuse(text, "has no plain path of a socket"))?),
        };
        Ok(Self { user: user.map(str::to_owned), host, port, socket })
    }
}

impl fmt::Display for SshPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ssh://")?;
        if let Some(user) = &self.user {
            write!(f, "{user}@")?;
        }
        f.write_str(&bracketed(&self.host))?;
        if let Some(port) = self.port {
            write!(f, ":{port}")?;
        }
        write!(f, "{}", self.socket.as_deref().unwrap_or(Path::new("")).display())
    }
}

/// Reads the path of a socket that can be part of a forwarding. Also used for paths that another machine sends.
pub fn remote_socket(path: &str) -> Option<PathBuf> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-+@".contains(&byte);
    let path = socket(path, path).ok()?;
    path.to_str()?.bytes().all(plain).then_some(path)
}
