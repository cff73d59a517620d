//! Reports the daemon's state to a service manager, if there is one.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use coracle::config::systemd;

/// Sends one message. A failure changes nothing.
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
