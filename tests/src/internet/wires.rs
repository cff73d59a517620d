//! The addresses: one wire between the machine and the internet, with every public address at its far end.

use std::net::IpAddr;

use super::Namespace;

/// The machine's hardware address and the internet's, so that the capture knows who sent a frame.
pub const MACHINE_LINK: [u8; 6] = [0x02, 0xc0, 0xac, 0x1e, 0x00, 0x02];
pub const OUTSIDE_LINK: [u8; 6] = [0x02, 0xc0, 0xac, 0x1e, 0x00, 0x01];

/// The machine's own addresses. One of them is as public as any other in the internet.
pub const MACHINE: &str = "93.184.217.2";
pub const MACHINE_PRIVATE: &str = "10.77.0.2";
pub const MACHINE_SIX: &str = "2606:2800:220:2::2";

pub const NAME_SERVER: &str = "93.184.216.53";
/// Where the capture's marks go; no server listens there.
pub const NOWHERE: &str = "93.184.216.254";

/// Addresses where what arrives is neither answered nor refused: connections to them stay half open.
pub const SILENT: &str = "93.184.218";

pub const OK: &str = "93.184.216.10";
pub const OK_SIX: &str = "2606:2800:220:1::10";
pub const OTHER: &str = "93.184.216.11";
pub const DATABASE: &str = "93.184.216.54";
pub const EVIL: &str = "93.184.216.66";
pub const EVIL_SIX: &str = "2606:2800:220:1::66";

/// Places no sandbox may be let to, whatever it is allowed. All of them answer here, on every port there is a server for.
pub const FORBIDDEN: [&str; 12] = [
    "169.254.169.254",
    "169.254.1.1",
    "100.100.100.200",
    "10.0.0.5",
    "172.16.0.5",
    "192.168.1.1",
    "100.64.0.1",
    "198.18.0.1",
    "192.0.0.192",
    "fd00:ec2::254",
    "fd12:3456::1",
    "fec0::1",
];

/// Everything that is reached over the wire and answered by the internet's one machine.
const ANSWERED: [&str; 14] = [
    "93.184.216.0/24",
    "169.254.0.0/16",
    "100.64.0.0/10",
    "10.0.0.0/8",
    "172.16.0.0/12",
    "192.168.0.0/16",
    "198.18.0.0/15",
    "192.0.0.0/24",
    "2606:2800:220:1::/64",
    "fc00::/7",
    "fec0::/10",
    // What embeds an address of version 4: mapped by a gateway, 6to4 and Teredo.
    "64:ff9b::/96",
    "2002::/16",
    "2001::/32",
];

/// Lays the wire.
pub fn lay(machine: &Namespace, outside: &Namespace) {
    outside.ip(&format!("link add out0 type veth peer name eth0 netns {}\n", machine.pid()));
    machine.ip(&format!(
        "link set eth0 address {}\nlink set eth0 up\n\
         addr add {MACHINE}/24 dev eth0\naddr add {MACHINE_PRIVATE}/32 dev eth0\n\
         addr add {MACHINE_SIX}/64 dev eth0 nodad\n",
        written(MACHINE_LINK)
    ));
    let answered: String = ANSWERED.map(|range| format!("route add local {range} dev lo\n")).concat();
    outside.ip(&format!(
        "link set out0 address {}\nlink set out0 up\n\
         addr add 93.184.217.1/24 dev out0\naddr add 2606:2800:220:2::1/64 dev out0 nodad\n{answered}",
        written(OUTSIDE_LINK)
    ));
    // Only now are both ends up, without which there is no way.
    machine.ip("route add default via 93.184.217.1\nroute add default via 2606:2800:220:2::1\n");
}

/// Returns an address from its text.
pub fn address(text: &str) -> IpAddr {
    text.parse().unwrap_or_else(|_| panic!("`{text}` is not an address"))
}

fn written(link: [u8; 6]) -> String {
    link.map(|byte| format!("{byte:02x}")).join(":")
}
