//! Which ids of the machine stand for the users of a sandbox.

use std::hash::{DefaultHasher, Hash, Hasher};

use coracle_core::SandboxId;

use crate::weak;

/// How many users a sandbox has.
pub const COUNT: u32 = 65_536;
/// Ranges start above those that distributions give to people as subordinate ids, and stay below the sign bit.
const FIRST: u32 = 0x2000_0000;
const RANGES: u64 = 0x5000;

/// Returns the machine's id that is root in the sandbox.
///
/// Each sandbox gets its own range, by its name. Two that get the same range are no worse off than with one range
/// for all: they share no file, process or namespace.
pub fn base(sandbox: &SandboxId) -> u32 {
    if weak::off(weak::Wall::UserNamespace) {
        return 0;
    }
    let mut hasher = DefaultHasher::new();
    sandbox.as_str().hash(&mut hasher);
    FIRST + (hasher.finish() % RANGES) as u32 * COUNT
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_range_fits_below_the_sign_bit() {
        assert!(u64::from(FIRST) + RANGES * u64::from(COUNT) <= 1 << 31);
    }
}
