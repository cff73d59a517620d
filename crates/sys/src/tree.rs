//! Removes a directory tree that another process wrote: by descriptor, never following a link, however deep it is.

mod delete;

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, fchmod, openat, unlinkat};
use rustix::io::Errno;

pub use delete::{Kept, delete_while};

/// How deep a tree may be where its directories cannot be lifted: each level costs a little stack and two
/// descriptors.
const DEPTH_MAX: usize = 256;

/// Removes `name` in `parent` and everything below it. Succeeds if it is missing.
///
/// Moves a deep tree up level by level instead of descending into it, so neither the stack nor the number of open
/// descriptors grows with its depth.
pub fn remove(parent: BorrowedFd<'_>, name: &CStr) -> io::Result<()> {
    Removal { depth: 0, serial: 0 }.remove(parent, name)
}

struct Removal {
    depth: usize,
    /// Numbers the names of lifted directories.
    serial: u64,
}

impl Removal {
    fn remove(&mut self, parent: BorrowedFd<'_>, name: &CStr) -> io::Result<()> {
        if self.depth > DEPTH_MAX {
            return Err(Errno::LOOP.into());
        }
        match unlinkat(parent, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => return Ok(()),
            Err(Errno::ISDIR | Errno::PERM | Errno::ACCESS) => {}
            Err(error) => return Err(error.into()),
        }
        let top = match open_directory(parent, name) {
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => return Ok(()),
            top => top?,
        };
        while self.empty_once(top.as_fd())? {}
        ignore_missing(unlinkat(parent, name, AtFlags::REMOVEDIR))
    }

    /// Goes over the directory once: removes files and empty directories, and lifts the directories inside its
    /// directories up to itself. Returns whether another round is needed.
    fn empty_once(&mut self, top: BorrowedFd<'_>) -> io::Result<bool> {
        let mut again = false;
        for name in plain_removed(top)? {
            again |= self.flatten(top, &name)?;
        }
        Ok(again)
    }

    /// Empties one directory of `top`, lifts what is deeper, and removes it. Returns whether it lifted anything or
    /// found new entries.
    fn flatten(&mut self, top: BorrowedFd<'_>, name: &CStr) -> io::Result<bool> {
        let mut again = false;
        let inner = open_directory(top, name)?;
        for child in plain_removed(inner.as_fd())? {
            match lift(inner.as_fd(), &child, top, &mut self.serial) {
                // An overlay does not move directories of its lower layers; these are only as deep as the image is.
                Err(error) if error.raw_os_error() == Some(libc::EXDEV) => {
                    self.depth += 1;
                    self.remove(inner.as_fd(), &child)?;
                    self.depth -= 1;
                }
                lifted => {
                    lifted?;
                    again = true;
                }
            }
        }
        match unlinkat(top, name, AtFlags::REMOVEDIR) {
            Ok(()) | Err(Errno::NOENT) => Ok(again),
            Err(Errno::NOTEMPTY) => Ok(true),
            Err(error) => Err(error.into()),
        }
    }
}

type Entry = (CString, FileType);

/// Removes everything except non-empty directories, and returns those.
fn plain_removed(directory: BorrowedFd<'_>) -> io::Result<Vec<CString>> {
    let mut rest = Vec::new();
    for (name, kind) in entries(directory)? {
        if kind != FileType::Directory {
            ignore_missing(unlinkat(directory, &name, AtFlags::empty()))?;
        } else if !matches!(unlinkat(directory, &name, AtFlags::REMOVEDIR), Ok(()) | Err(Errno::NOENT)) {
            rest.push(name);
        }
    }
    Ok(rest)
}

/// Moves a directory up one level, under an unused name.
fn lift(from: BorrowedFd<'_>, name: &CStr, to: BorrowedFd<'_>, serial: &mut u64) -> io::Result<()> {
    loop {
        *serial += 1;
        let lifted = format!(".coracle-lifted-{serial}");
        match rustix::fs::renameat_with(from, name, to, lifted.as_str(), rustix::fs::RenameFlags::NOREPLACE) {
            Ok(()) | Err(Errno::NOENT) => return Ok(()),
            Err(Errno::EXIST) => continue,
            // The kernel moves a directory to another parent only if we may write to it.
            Err(Errno::ACCESS) => fchmod(open_directory(from, name)?, Mode::RWXU)?,
            Err(error) => return Err(error.into()),
        }
    }
}

fn open_directory(parent: BorrowedFd<'_>, name: &CStr) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let directory = match openat(parent, name, flags, Mode::empty()) {
        Err(Errno::ACCESS) => {
            // Its owner removed the permissions; restore them through a descriptor, not the name.
            let path = openat(
                parent,
                name,
                OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC,
                Mode::empty(),
            )?;
            rustix::fs::chmod(
                format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&path)),
                Mode::RWXU,
            )?;
            openat(parent, name, flags, Mode::empty())?
        }
        result => result?,
    };
    // A readable directory may still not be writable. If this fails, the removal fails too, and reports it.
    let mode = Mode::from_raw_mode(rustix::fs::fstat(&directory)?.st_mode);
    if !mode.contains(Mode::RWXU) {
        let _ = fchmod(&directory, mode | Mode::RWXU);
    }
    Ok(directory)
}

/// Returns the names in a directory. Reads all before any is removed: removing while reading may skip some.
fn entries(directory: BorrowedFd<'_>) -> io::Result<Vec<Entry>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(directory)? {
        let entry = entry?;
        if !matches!(entry.file_name().to_bytes(), b"." | b"..") {
            names.push((entry.file_name().to_owned(), entry.file_type()));
        }
    }
    Ok(names)
}

fn ignore_missing(result: Result<(), Errno>) -> io::Result<()> {
    match result {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
