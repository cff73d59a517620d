//! Landlock: a second fence around the paths a process may reach, independent of the descriptors it holds.

use std::io;
use std::os::fd::BorrowedFd;

use landlock::{
    ABI, Access, AccessFs, AccessNet, CompatLevel, Compatible, PathBeneath, Ruleset, RulesetAttr,
    RulesetCreatedAttr, RulesetStatus, Scope,
};

/// The newest version we know. An older kernel enforces as much of it as it can.
const NEWEST: ABI = ABI::V6;

/// Keeps this thread, and what it starts, from everything not below `root`, from making devices, and from
/// signalling or connecting (by abstract names) to processes outside. Returns whether the kernel supports Landlock.
///
/// The caller must have set `no_new_privs`.
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

/// Keeps this thread, and what it starts, from all files but those below `read`, which it may also execute, and those below
/// `write`; from TCP; and from signalling or connecting (by abstract names) to processes outside. Returns whether the
/// kernel supports Landlock.
///
/// The caller must have set `no_new_privs`.
pub fn fence(read: &[BorrowedFd<'_>], write: &[BorrowedFd<'_>]) -> io::Result<bool> {
    let devices = AccessFs::MakeChar | AccessFs::MakeBlock | AccessFs::IoctlDev;
    let changes = AccessFs::from_all(NEWEST) & !devices & !AccessFs::Execute;
    let reads = AccessFs::from_read(NEWEST);
    let reading = read.iter().map(|place| Ok(PathBeneath::new(*place, reads)));
    let writing = write.iter().map(|place| Ok(PathBeneath::new(*place, changes)));
    let restricted = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(NEWEST))
        .and_then(|ruleset| ruleset.handle_access(AccessNet::from_all(NEWEST)))
        .and_then(|ruleset| ruleset.scope(Scope::from_all(NEWEST)))
        .and_then(Ruleset::create)
        .and_then(|ruleset| ruleset.add_rules(reading.chain(writing)))
        .and_then(|ruleset| ruleset.restrict_self())
        .map_err(io::Error::other)?;
    Ok(restricted.ruleset != RulesetStatus::NotEnforced)
}

/// Returns the version of the kernel's Landlock, 0 if it has none.
pub fn version() -> u32 {
    const CREATE_RULESET_VERSION: u32 = 1;
    // SAFETY: asks for the version: passes no attributes and returns a number.
    let version = unsafe {
        libc::syscall(libc::SYS_landlock_create_ruleset, std::ptr::null::<u8>(), 0, CREATE_RULESET_VERSION)
    };
    u32::try_from(version).unwrap_or(0)
}
