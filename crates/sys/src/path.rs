//! Opens files by path in a tree that an untrusted process may write to.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

/// How far a path may lead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Within {
    /// Only below the directory; a path that leads out is an error.
    Beneath,
    /// The directory counts as the root: `/` and `..` stop there.
    Root,
    /// Like `Beneath`, and without links.
    Tree,
}

/// Opens `path` below `directory`. Never follows the magic links of `/proc`.
pub fn open(directory: BorrowedFd<'_>, path: &[u8], within: Within, flags: OFlags) -> io::Result<OwnedFd> {
    let scope = match within {
        Within::Beneath => ResolveFlags::BENEATH,
        Within::Root => ResolveFlags::IN_ROOT,
        Within::Tree => ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS,
    };
    loop {
        match rustix::fs::openat2(
            directory,
            path,
            flags | OFlags::CLOEXEC,
            Mode::empty(),
            scope | ResolveFlags::NO_MAGICLINKS,
        ) {
            // The tree changed during the walk in a way that could have led outside; the kernel asks to try again.
            Err(Errno::AGAIN) => continue,
            result => return Ok(result?),
        }
    }
}

/// Opens the file behind an `O_PATH` descriptor again, with other flags.
pub fn reopen(descriptor: BorrowedFd<'_>, flags: OFlags) -> io::Result<OwnedFd> {
    let path = format!("/proc/self/fd/{}", descriptor.as_raw_fd());
    Ok(rustix::fs::openat(CWD, path, flags | OFlags::CLOEXEC, Mode::empty())?)
}
