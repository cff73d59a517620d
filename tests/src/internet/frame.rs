//! Parses a frame on the wire: its destination and its protocol.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
const ARP: u16 = 0x0806;
const TCP: u8 = 6;
const UDP: u8 = 17;
const ICMPV6: u8 = 58;

/// One packet the machine has sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Packet {
    /// To a port.
    Port { protocol: &'static str, to: IpAddr, port: u16 },
    /// In a protocol that has no ports, or none we know.
    Plain { protocol: u8, to: IpAddr },
    /// Not even IP.
    Link { kind: u16 },
}

impl fmt::Display for Packet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Port { protocol, to, port } => write!(f, "{protocol} to {to} port {port}"),
            Self::Plain { protocol, to } => write!(f, "protocol {protocol} to {to}"),
            Self::Link { kind } => write!(f, "a frame of kind {kind:#06x}"),
        }
    }
}

/// Reads a frame. Nothing is returned for what two kernels say to each other about the wire itself: ARP, and of ICMPv6
/// the messages of neighbour discovery and multicast groups (RFC 4861, RFC 3810). Sandboxes share no wire with
/// the host, so none of that could be theirs.
pub fn read(frame: &[u8]) -> Option<Packet> {
    let kind = u16::from_be_bytes([*frame.get(12)?, *frame.get(13)?]);
    let packet = &frame[14..];
    match kind {
        ARP => None,
        IPV4 => version_4(packet),
        IPV6 => version_6(packet),
        kind => Some(Packet::Link { kind }),
    }
}

fn version_4(packet: &[u8]) -> Option<Packet> {
    let header = usize::from(packet.first()? & 0x0f) * 4;
    let to: [u8; 4] = packet.get(16..20)?.try_into().ok()?;
    Some(of(*packet.get(9)?, Ipv4Addr::from(to).into(), packet.get(header..).unwrap_or_default()))
}

fn version_6(packet: &[u8]) -> Option<Packet> {
    let to: [u8; 16] = packet.get(24..40)?.try_into().ok()?;
    let (mut protocol, mut rest) = (*packet.get(6)?, packet.get(40..)?);
    // Groups are joined under a hop-by-hop header.
    if protocol == 0 {
        protocol = *rest.first()?;
        rest = rest.get(8 + usize::from(*rest.get(1)?) * 8..)?;
    }
    let of_the_wire = protocol == ICMPV6 && matches!(rest.first(), Some(130..=137 | 143));
    (!of_the_wire).then(|| of(protocol, Ipv6Addr::from(to).into(), rest))
}

fn of(protocol: u8, to: IpAddr, rest: &[u8]) -> Packet {
    let port = || rest.get(2..4).map(|bytes| u16::from_be_bytes([bytes[0], bytes[1]]));
    match (protocol, port()) {
        (TCP, Some(port)) => Packet::Port { protocol: "tcp", to, port },
        (UDP, Some(port)) => Packet::Port { protocol: "udp", to, port },
        (protocol, _) => Packet::Plain { protocol, to },
    }
}
