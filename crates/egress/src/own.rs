//! Which addresses are this machine's own, whatever interface they are on.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};

/// Any port will do: nothing is sent.
const PORT: u16 = 9;

/// Tells whether what is sent to an address stays on this machine. Where that cannot be told, it is taken for granted.
pub fn is_own(address: IpAddr) -> bool {
    let unspecified: IpAddr = match address {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    UdpSocket::bind((unspecified, 0))
        .map_or(true, |socket| source(&socket, address).is_ok_and(|own| own == address))
}

/// Returns where datagrams to an address would come from. The kernel's own answer, and no packet is sent for it: to an
/// address of ours they come from that address itself.
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
