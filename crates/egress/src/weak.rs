//! Walls left out on purpose, in builds for the attack suite only; see the backend's file of this name. Without the
//! feature `weaken` every wall stands, and all of this is constant.

use std::net::ToSocketAddrs;

use coracle_core::network::Host;
pub use coracle_wire::Wall;

#[cfg(feature = "weaken")]
static SET: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);

#[cfg(feature = "weaken")]
fn set() -> u64 {
    SET.load(std::sync::atomic::Ordering::Relaxed)
}

#[cfg(not(feature = "weaken"))]
const fn set() -> u64 {
    0
}

/// Tells whether a wall is left out.
pub fn off(wall: Wall) -> bool {
    set() & wall.bit() != 0
}

/// Tells whether any wall is left out.
pub fn any() -> bool {
    set() != 0
}

/// Leaves out the walls that the composition root names.
#[cfg(feature = "weaken")]
pub fn heed(walls: u64) {
    SET.store(walls, std::sync::atomic::Ordering::Relaxed);
}

/// How the proxy must never read a host: as a resolver written in C would, cut off at the first odd byte, with
/// users in front and numbers in every spelling.
pub fn misread(written: &[u8]) -> Option<Host> {
    if !off(Wall::EgressSpelling) {
        return None;
    }
    let text = String::from_utf8_lossy(written).into_owned();
    let text = text.rsplit('@').next().unwrap_or_default();
    let text = text.split(['\0', '%']).next().unwrap_or_default().replace(['\u{3002}', '\u{ff0e}'], ".");
    let looked_up = || (text.as_str(), 0).to_socket_addrs().ok()?.next();
    text.parse().ok().or_else(|| Some(Host::of_address(looked_up()?.ip())))
}
