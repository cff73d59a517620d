//! The sockets the daemon listens on: a unix socket only its owner may open, TCP addresses, or sockets inherited from
//! the service manager.

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use coracle::{Error, Kind, Result};
use rustix::fs::Mode;
use rustix::net::AddressFamily;

/// An address to listen on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    Unix(PathBuf),
    Tcp(SocketAddr),
}

/// An open listener.
#[derive(Debug)]
pub enum Bound {
    Unix(tokio::net::UnixListener),
    Tcp(tokio::net::TcpListener),
}

/// Starts to listen. Needs a runtime.
pub fn bind(address: &Address) -> Result<Bound> {
    let bound = match address {
        Address::Unix(path) => {
            make_way(path)?;
            private(|| std::os::unix::net::UnixListener::bind(path)).and_then(unix)
        }
        Address::Tcp(address) => std::net::TcpListener::bind(address).and_then(tcp),
    };
    bound.map_err(|error| {
        Error::new(Kind::NotAvailable, format!("could not listen at `{address}`"))
            .hint("choose another place with `--socket` or `--listen`")
            .caused_by(error)
    })
}

impl Bound {
    /// Returns the address, with the port that the kernel chose for port 0.
    pub fn address(&self) -> Option<String> {
        match self {
            Self::Unix(listener) => {
                let address = listener.local_addr().ok()?;
                Some(Address::Unix(address.as_pathname()?.to_owned()).to_string())
            }
            Self::Tcp(listener) => Some(Address::Tcp(listener.local_addr().ok()?).to_string()),
        }
    }

    /// Takes over a socket that another process opened, as systemd does.
    pub fn inherit(socket: OwnedFd) -> io::Result<Self> {
        match rustix::net::getsockname(&socket)?.address_family() {
            AddressFamily::UNIX => unix(socket.into()),
            AddressFamily::INET | AddressFamily::INET6 => tcp(socket.into()),
            _ => Err(io::Error::other("it is neither a unix socket nor one for TCP")),
        }
    }
}

fn unix(listener: std::os::unix::net::UnixListener) -> io::Result<Bound> {
    listener.set_nonblocking(true)?;
    Ok(Bound::Unix(tokio::net::UnixListener::from_std(listener)?))
}

fn tcp(listener: std::net::TcpListener) -> io::Result<Bound> {
    listener.set_nonblocking(true)?;
    Ok(Bound::Tcp(tokio::net::TcpListener::from_std(listener)?))
}

/// Removes the socket of a daemon that is gone. Anything else stays.
fn make_way(path: &Path) -> Result<()> {
    let Ok(found) = fs::symlink_metadata(path) else { return Ok(()) };
    let taken = |what: &str| Err(Error::new(Kind::Conflict, format!("`{}` {what}", path.display())));
    if !found.file_type().is_socket() {
        return taken("exists already and is not a socket");
    }
    match UnixStream::connect(path) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            fs::remove_file(path).map_err(|error| {
                Error::internal(format!("could not remove the old socket `{}`", path.display()), error)
            })
        }
        _ => taken("is in use: another process listens there"),
    }
}

/// Runs `make` with a umask that gives others no access: otherwise another user could connect between the creation of
/// the socket and a chmod.
fn private<T>(make: impl FnOnce() -> T) -> T {
    let before = rustix::process::umask(Mode::from_raw_mode(0o177));
    let made = make();
    rustix::process::umask(before);
    made
}

impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Tcp(address) => write!(f, "http://{address}"),
        }
    }
}
