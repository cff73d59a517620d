//! Which addresses are public, and networks of addresses.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// Networks that IANA reserves: this host, private, shared, loopback, link-local, protocols, examples, relays,
/// benchmarks, multicast, future.
const SET_ASIDE_V4: [([u8; 4], u32); 15] = [
    ([0, 0, 0, 0], 8),
    ([10, 0, 0, 0], 8),
    ([100, 64, 0, 0], 10),
    ([127, 0, 0, 0], 8),
    ([169, 254, 0, 0], 16),
    ([172, 16, 0, 0], 12),
    ([192, 0, 0, 0], 24),
    ([192, 0, 2, 0], 24),
    ([192, 88, 99, 0], 24),
    ([192, 168, 0, 0], 16),
    ([198, 18, 0, 0], 15),
    ([198, 51, 100, 0], 24),
    ([203, 0, 113, 0], 24),
    ([224, 0, 0, 0], 4),
    ([240, 0, 0, 0], 4),
];

/// The range of IPv6 that IANA assigns publicly, and what is reserved in it: protocols (Teredo among them), examples,
/// 6to4, examples again.
const GLOBAL_V6: (u16, u32) = (0x2000, 3);
const SET_ASIDE_V6: [([u16; 2], u32); 4] =
    [([0x2001, 0x0000], 23), ([0x2001, 0x0db8], 32), ([0x2002, 0], 16), ([0x3fff, 0], 20)];

/// A network: its first address and how many bits all of its addresses share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cidr {
    first: IpAddr,
    length: u32,
}

/// Text that is no network, or has address bits set beyond its prefix length.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("is no network as in `10.0.0.0/8`")]
pub struct NoNetwork;

impl Cidr {
    const fn v4(first: [u8; 4], length: u32) -> Self {
        Self { first: IpAddr::V4(Ipv4Addr::new(first[0], first[1], first[2], first[3])), length }
    }

    const fn v6(first: [u16; 2], length: u32) -> Self {
        Self { first: IpAddr::V6(Ipv6Addr::new(first[0], first[1], 0, 0, 0, 0, 0, 0)), length }
    }

    /// Returns the network that contains one address only.
    pub fn of(address: IpAddr) -> Self {
        let first = address.to_canonical();
        Self { first, length: if first.is_ipv4() { 32 } else { 128 } }
    }

    /// Tells whether an address is in the network.
    pub fn contains(&self, address: IpAddr) -> bool {
        self.holds(&Self::of(address))
    }

    /// Tells whether all of another network is in this one.
    pub fn holds(&self, other: &Self) -> bool {
        self.first.is_ipv4() == other.first.is_ipv4()
            && other.length >= self.length
            && masked(other.first, self.length) == self.first
    }

    /// Tells whether every address in the network is public.
    pub fn is_public(&self) -> bool {
        let apart = |aside: Self| !aside.holds(self) && !self.holds(&aside);
        match self.first {
            IpAddr::V4(_) => SET_ASIDE_V4.iter().all(|(first, length)| apart(Self::v4(*first, *length))),
            IpAddr::V6(_) => {
                Self::v6([GLOBAL_V6.0, 0], GLOBAL_V6.1).holds(self)
                    && SET_ASIDE_V6.iter().all(|(first, length)| apart(Self::v6(*first, *length)))
            }
        }
    }
}

impl FromStr for Cidr {
    type Err = NoNetwork;

    fn from_str(text: &str) -> Result<Self, NoNetwork> {
        let (address, length) = text.split_once('/').ok_or(NoNetwork)?;
        let inner = address.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(address);
        let first: IpAddr = inner.parse().map_err(|_| NoNetwork)?;
        let plain = (1..=3).contains(&length.len()) && length.bytes().all(|byte| byte.is_ascii_digit());
        let length: u32 = length.parse().ok().filter(|_| plain).ok_or(NoNetwork)?;
        let most = if first.is_ipv4() { 32 } else { 128 };
        // An IPv4 address in IPv6 form would match nothing: addresses are compared in their canonical form.
        let own_form = first.to_canonical() == first;
        match length <= most && own_form && masked(first, length) == first {
            true => Ok(Self { first, length }),
            false => Err(NoNetwork),
        }
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.first {
            IpAddr::V4(first) => write!(f, "{first}")?,
            IpAddr::V6(first) => write!(f, "[{first}]")?,
        }
        match *self == Self::of(self.first) {
            true => Ok(()),
            false => write!(f, "/{}", self.length),
        }
    }
}

/// Tells whether an address is public.
pub fn is_public(address: IpAddr) -> bool {
    let IpAddr::V6(new) = address else { return Cidr::of(address).is_public() };
    match embedded(new) {
        Embedded::Instead(old) => Cidr::of(old.into()).is_public(),
        Embedded::Inside(old) => Cidr::of(old.into()).is_public() && Cidr::of(address).is_public(),
        Embedded::Nothing => Cidr::of(address).is_public(),
    }
}

/// An IPv4 address embedded in an IPv6 address.
enum Embedded {
    /// The kernel or a router sends packets there instead.
    Instead(Ipv4Addr),
    /// A tunnel may end there.
    Inside(Ipv4Addr),
    Nothing,
}

fn embedded(address: Ipv6Addr) -> Embedded {
    let segments = address.segments();
    let last = Ipv4Addr::from_bits(u32::from(segments[6]) << 16 | u32::from(segments[7]));
    if address.to_ipv4_mapped().is_some() || segments[..6] == [0x64, 0xff9b, 0, 0, 0, 0] {
        return Embedded::Instead(last);
    }
    // ISATAP: below any prefix.
    match (segments[4] & !0x0200, segments[5]) {
        (0, 0x5efe) => Embedded::Inside(last),
        _ => Embedded::Nothing,
    }
}

/// Returns the address with all bits beyond the length cleared.
fn masked(address: IpAddr, length: u32) -> IpAddr {
    match address {
        IpAddr::V4(address) => {
            let mask = u32::MAX.checked_shl(32 - length).unwrap_or(0);
            Ipv4Addr::from_bits(address.to_bits() & mask).into()
        }
        IpAddr::V6(address) => {
            let mask = u128::MAX.checked_shl(128 - length).unwrap_or(0);
            Ipv6Addr::from_bits(address.to_bits() & mask).into()
        }
    }
}
