//! Whether we are root on this machine, which decides how sandboxes are made.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;

use super::ids;
use crate::weak;

/// The rights of the process that makes sandboxes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Privilege {
    /// A sandbox has its own ids, cgroups and a disk; files are mapped to its ids.
    Root,
    /// A sandbox has one user, who is the caller outside, and only the limits that an ordinary user can set.
    Rootless { uid: u32, gid: u32 },
}

impl Privilege {
    pub fn detect() -> Self {
        let (uid, gid) = (
            coracle_sys::rustix::process::geteuid().as_raw(),
            coracle_sys::rustix::process::getegid().as_raw(),
        );
        if uid == 0 { Self::Root } else { Self::Rootless { uid, gid } }
    }

    pub fn is_root(self) -> bool {
        self == Self::Root
    }

    /// Maps the users of a new namespace. Returns the namespace.
    pub fn map_ids(self, pid: i32, base: u32) -> io::Result<OwnedFd> {
        let (users, groups) = match self {
            Self::Root => (format!("0 {base} {}", ids::COUNT), format!("0 {base} {}", ids::COUNT)),
            Self::Rootless { uid, gid } => {
                // Without this an ordinary user may not map groups: dropping a group could open a file that denies
                // access to it.
                fs::write(format!("/proc/{pid}/setgroups"), "deny")?;
                (format!("0 {uid} 1"), format!("0 {gid} 1"))
            }
        };
        if !weak::off(weak::Wall::UserNamespace) {
            fs::write(format!("/proc/{pid}/uid_map"), users)?;
            fs::write(format!("/proc/{pid}/gid_map"), groups)?;
        }
        fs::File::open(format!("/proc/{pid}/ns/user")).map(OwnedFd::from)
    }
}
