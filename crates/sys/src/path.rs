//! Opening by path in a tree whose owner is not to be trusted.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

/// How far a path may lead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Within {
    /// Nowhere but below the directory; what leads out is an error.
    Beneath,
    /// The directory is taken for the root: `/` and `..` stop there.
    Root,
    /// As `Beneath`, and by no link.
    Tree,
}

/// Opens `path` below `directory`. Links of `/proc` that are not names are never followed.
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
            // The tree changed under the walk in a way that could have led outside; the kernel asks to try again.
            Err(Errno::AGAIN) => continue,
            result => return Ok(result?),
        }
    }
}

/// Opens again, with other flags, what an `O_PATH` descriptor already points at.
pub fn reopen(descriptor: BorrowedFd<'_>, flags: OFlags) -> io::Result<OwnedFd> {
    let path = format!("/proc/self/fd/{}", descriptor.as_raw_fd());
    Ok(rustix::fs::openat(CWD, path, flags | OFlags::CLOEXEC, Mode::empty())?)
}
