//! Walls left out on purpose, in builds for the attack suite only; see the backend's file of this name. Without the
//! feature `weaken` every wall stands, and all of this is constant.

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

/// Tells whether any wall is.
pub fn any() -> bool {
    set() != 0
}

/// Takes the composition root's word for what is to be left out.
#[cfg(feature = "weaken")]
pub fn heed(walls: u64) {
    SET.store(walls, std::sync::atomic::Ordering::Relaxed);
}
