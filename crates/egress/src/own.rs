//! Tells which addresses belong to this machine, on any of its interfaces.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};

/// Any port will do: no packet is sent.
const PORT: u16 = 9;

/// Tells whether traffic to an address stays on this machine. If that cannot be determined, says yes.
pub fn is_own(address: IpAddr) -> bool {
    let unspecified: IpAddr = match address {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    UdpSocket::bind((unspecified, 0))
        .map_or(true, |socket| source(&socket, address).is_ok_and(|own| own == address))
}

/// Returns the source address of datagrams to an address. The kernel answers without sending a packet: for an
/// address of this machine, the source is that address itself.
fn source(socket: &UdpSocket, address: IpAddr) -> io::Result<IpAddr> {
    socket.connect((address, PORT))?;
    Ok(socket.local_addr()?.ip())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_stays_here_is_own() {
        assert!(is_own(Ipv4Addr::LOCALHOST.into()) && is_own(Ipv4Addr::new(127, 0, 0, 1).into()));
        assert!(!is_own(Ipv4Addr::new(93, 184, 216, 34).into()));
    }
}
