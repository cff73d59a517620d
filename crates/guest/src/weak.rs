//! Walls left out on purpose, in builds for the attack suite only; see the host's file of this name. Without the
//! feature `weaken` every wall stands, and all of this is constant.

use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use coracle_sys::rustix;
use coracle_sys::rustix::fs::{Mode, OFlags};
use coracle_sys::rustix::process::DumpableBehavior;

pub use coracle_wire::Wall;

#[cfg(feature = "weaken")]
static SET: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);

/// Tells whether a wall is left out.
#[cfg(feature = "weaken")]
pub fn off(wall: Wall) -> bool {
    SET.load(std::sync::atomic::Ordering::Relaxed) & wall.bit() != 0
}

#[cfg(not(feature = "weaken"))]
pub const fn off(_: Wall) -> bool {
    false
}

/// Leaves out the walls the host names.
pub fn heed(_weakened: Option<u64>) {
    #[cfg(feature = "weaken")]
    SET.store(_weakened.unwrap_or(0), std::sync::atomic::Ordering::Relaxed);
}

/// Lets other processes trace and read this one before it becomes a command.
pub fn be_transparent() -> io::Result<()> {
    Ok(rustix::process::set_dumpable_behavior(DumpableBehavior::Dumpable)?)
}

/// How file operations must never open a path: check where it leads, at most, and then open it by name.
pub fn open_by_name(path: &[u8], flags: OFlags) -> io::Result<OwnedFd> {
    let path = Path::new(OsStr::from_bytes(path));
    if !off(Wall::Confinement) && !std::fs::canonicalize(path)?.starts_with("/workspace") {
        return Err(rustix::io::Errno::XDEV.into());
    }
    Ok(rustix::fs::open(path, flags | OFlags::CLOEXEC, Mode::empty())?)
}

/// How they must never delete a tree: by names, each checked first and then opened.
pub fn delete_by_name(path: &[u8]) -> io::Result<()> {
    let path = Path::new(OsStr::from_bytes(path));
    for entry in std::fs::read_dir(path)? {
        let child = entry?.path();
        match child.symlink_metadata().is_ok_and(|metadata| metadata.is_dir()) {
            true => delete_by_name(child.as_os_str().as_bytes())?,
            false => drop(std::fs::remove_file(child)),
        }
    }
    let _ = std::fs::remove_dir(path);
    Ok(())
}
