//! Tells a service manager how things stand, where there is one that wants to know.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use coracle::config::systemd;

/// Says one thing. Who does not listen misses it.
pub fn say(word: &str) {
    let Some(path) = systemd::notify_socket() else { return };
    let address = match path.as_os_str().as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name),
        _ => SocketAddr::from_pathname(&path),
    };
    if let (Ok(address), Ok(socket)) = (address, UnixDatagram::unbound()) {
        let _ = socket.send_to_addr(word.as_bytes(), &address);
    }
}
