//! One name in one directory: what exists there, and what may replace it.

use std::ffi::{CStr, CString};
use std::fmt::Display;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use coracle_sys::rustix::fs::{self, AtFlags, FileType, Mode, OFlags, Stat, XattrFlags};
use coracle_sys::rustix::io::Errno;
use coracle_sys::tree;
use coracle_unpack::{Name, Refusal};

/// The attribute by which a directory hides those of lower layers, for an overlay mounted in a user namespace.
const OPAQUE: &str = "user.overlay.opaque";

/// What a directory may replace.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Replace {
    Anything,
    Whiteouts,
}

/// Returns a function that says what failed, and on which name.
pub fn failed<E: Display>(attempted: &'static str, name: &Name) -> impl FnOnce(E) -> Refusal {
    move |error| Refusal::machine(format!("{attempted} {name:?}"), error)
}

/// Returns the text as a C string.
pub fn terminated(text: &[u8]) -> Result<CString, Refusal> {
    CString::new(text).map_err(|_| Refusal::malformed("a name has a NUL in it"))
}

/// Looks at an existing entry without following it.
pub fn look(parent: BorrowedFd<'_>, last: &CStr) -> Result<Option<Stat>, Errno> {
    match fs::statat(parent, last, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => Ok(Some(stat)),
        Err(Errno::NOENT) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Removes an entry, to make room for a later one of the same name.
pub fn clear(parent: BorrowedFd<'_>, last: &CStr, name: &Name) -> Result<(), Refusal> {
    match fs::unlinkat(parent, last, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(Errno::ISDIR | Errno::PERM) => tree::remove(parent, last).map_err(failed("replace", name)),
        Err(error) => Err(failed("replace", name)(error)),
    }
}

/// Opens an existing directory or makes one. Never follows a link: replaces it, or fails.
pub fn enter(parent: BorrowedFd<'_>, last: &CStr, replace: Replace, name: &Name) -> Result<OwnedFd, Refusal> {
    let open = || {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        fs::openat(parent, last, flags, Mode::empty())
    };
    let found = look(parent, last).map_err(failed("look at", name))?;
    let whiteout = found.as_ref().is_some_and(is_whiteout);
    match found.map(|stat| FileType::from_raw_mode(stat.st_mode)) {
        Some(FileType::Directory) => return open().map_err(failed("open", name)),
        Some(_) if replace == Replace::Anything || whiteout => clear(parent, last, name)?,
        Some(FileType::Symlink) => {
            return Err(Refusal::malformed(format!("{name:?} is reached through a link")));
        }
        Some(_) => {
            return Err(Refusal::malformed(format!(
                "{name:?} is reached through something that is not a directory"
            )));
        }
        None => {}
    }
    fs::mkdirat(parent, last, Mode::from_raw_mode(0o755)).map_err(failed("create", name))?;
    let directory = open().map_err(failed("open", name))?;
    if whiteout {
        // Lower layers' content of this directory stays hidden.
        mark_opaque(directory.as_fd()).map_err(failed("hide what is below", name))?;
    }
    Ok(directory)
}

/// Hides a name of lower layers. Keeps what this layer has there: a whiteout concerns only lower ones.
pub fn whiteout(parent: BorrowedFd<'_>, last: &CStr, name: &Name) -> Result<(), Refusal> {
    match look(parent, last).map_err(failed("look at", name))? {
        None => fs::mknodat(parent, last, FileType::CharacterDevice, Mode::empty(), 0)
            .map_err(failed("hide", name)),
        Some(stat) if FileType::from_raw_mode(stat.st_mode) == FileType::Directory => {
            let directory = enter(parent, last, Replace::Whiteouts, name)?;
            mark_opaque(directory.as_fd()).map_err(failed("hide what is below", name))
        }
        Some(_) => Ok(()),
    }
}

pub fn mark_opaque(directory: BorrowedFd<'_>) -> Result<(), Errno> {
    fs::fsetxattr(directory, OPAQUE, b"y", XattrFlags::empty())
}

fn is_whiteout(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::CharacterDevice && stat.st_rdev == 0
}
