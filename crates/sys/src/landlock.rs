//! Landlock: a second fence around what a process may reach by path, whatever descriptors it comes by.

use std::io;
use std::os::fd::BorrowedFd;

use landlock::{
    ABI, Access, AccessFs, CompatLevel, Compatible, PathBeneath, Ruleset, RulesetAttr, RulesetCreatedAttr,
    RulesetStatus, Scope,
};

/// What the newest kernel we know can do; an older one does as much of it as it can.
const NEWEST: ABI = ABI::V6;

/// Keeps this thread, and what it starts, from everything that is not below `root`, from making devices, and from
/// signalling or connecting (by abstract names) to processes outside. Tells whether the kernel can do that at all.
///
/// New privileges must have been given up before.
pub fn restrict(root: BorrowedFd<'_>) -> io::Result<bool> {
    let devices = AccessFs::MakeChar | AccessFs::MakeBlock;
    let restricted = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(NEWEST))
        .and_then(|ruleset| ruleset.scope(Scope::from_all(NEWEST)))
        .and_then(Ruleset::create)
        .and_then(|ruleset| ruleset.add_rule(PathBeneath::new(root, AccessFs::from_all(NEWEST) & !devices)))
        .and_then(|ruleset| ruleset.restrict_self())
        .map_err(io::Error::other)?;
    Ok(restricted.ruleset != RulesetStatus::NotEnforced)
}

/// Returns the version of the kernel's Landlock, 0 if it has none.
pub fn version() -> u32 {
    const CREATE_RULESET_VERSION: u32 = 1;
    // SAFETY: asks for the version: no attributes are passed, and a number comes back.
    let version = unsafe {
        libc::syscall(libc::SYS_landlock_create_ruleset, std::ptr::null::<u8>(), 0, CREATE_RULESET_VERSION)
    };
    u32::try_from(version).unwrap_or(0)
}
