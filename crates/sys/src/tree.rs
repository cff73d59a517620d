//! Removing a directory tree written by someone else: by descriptor, never following a link, however deep it is.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, fchmod, openat, unlinkat};
use rustix::io::Errno;

/// Removes `name` in `parent` and everything below it. Succeeds if it is not there.
///
/// A deep tree is moved up level by level instead of being descended into, so neither the stack nor the number of
/// open descriptors grows with its depth.
pub fn remove(parent: BorrowedFd<'_>, name: &CStr) -> io::Result<()> {
    match unlinkat(parent, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => return Ok(()),
        Err(Errno::ISDIR | Errno::PERM | Errno::ACCESS) => {}
        Err(error) => return Err(error.into()),
    }
    let top = match open_directory(parent, name) {
        Ok(top) => top,
        Err(error) if error.raw_os_error() == Some(libc::ENOENT) => return Ok(()),
        Err(error) => return Err(error),
    };
    let mut serial = 0u64;
    loop {
        let lifted = empty_once(top.as_fd(), &mut serial)?;
        if !lifted {
            break;
        }
    }
    match unlinkat(parent, name, AtFlags::REMOVEDIR) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Goes once over the directory: removes files and empty directories, and lifts the directories inside its
/// directories up to itself. Tells whether another round is needed.
fn empty_once(top: BorrowedFd<'_>, serial: &mut u64) -> io::Result<bool> {
    let mut again = false;
    for (name, kind) in entries(top)? {
        if kind != FileType::Directory {
            ignore_missing(unlinkat(top, &name, AtFlags::empty()))?;
            continue;
        }
        match unlinkat(top, &name, AtFlags::REMOVEDIR) {
            Ok(()) | Err(Errno::NOENT) => continue,
            Err(_) => {}
        }
        let inner = open_directory(top, &name)?;
        for (child, kind) in entries(inner.as_fd())? {
            if kind != FileType::Directory {
                ignore_missing(unlinkat(&inner, &child, AtFlags::empty()))?;
                continue;
            }
            if unlinkat(&inner, &child, AtFlags::REMOVEDIR).is_err() {
                lift(inner.as_fd(), &child, top, serial)?;
                again = true;
            }
        }
        match unlinkat(top, &name, AtFlags::REMOVEDIR) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(Errno::NOTEMPTY) => again = true,
            Err(error) => return Err(error.into()),
        }
    }
    Ok(again)
}

/// Moves a directory up one level, under a name nobody else uses.
fn lift(from: BorrowedFd<'_>, name: &CStr, to: BorrowedFd<'_>, serial: &mut u64) -> io::Result<()> {
    loop {
        *serial += 1;
        let lifted = format!(".coracle-lifted-{serial}");
        match rustix::fs::renameat_with(from, name, to, lifted.as_str(), rustix::fs::RenameFlags::NOREPLACE) {
            Ok(()) | Err(Errno::NOENT) => return Ok(()),
            Err(Errno::EXIST) => continue,
            // A directory must be writable by us to be given another parent.
            Err(Errno::ACCESS) => fchmod(
                openat(from, name, OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?,
                Mode::RWXU,
            )?,
            Err(error) => return Err(error.into()),
        }
    }
}

fn open_directory(parent: BorrowedFd<'_>, name: &CStr) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    match openat(parent, name, flags, Mode::empty()) {
        Err(Errno::ACCESS) => {
            // Its owner took the permissions away; give them back, through a descriptor and not the name.
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
            Ok(openat(parent, name, flags, Mode::empty())?)
        }
        result => Ok(result?),
    }
}

/// Returns the names in a directory, all read before any is removed: removing while reading may skip some.
fn entries(directory: BorrowedFd<'_>) -> io::Result<Vec<(CString, FileType)>> {
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
