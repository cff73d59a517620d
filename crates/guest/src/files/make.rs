//! Makes directories and links.

use std::ffi::CString;
use std::os::fd::{AsRawFd, OwnedFd};

use coracle_sys::rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, chmod, fstat, mkdirat, renameat, statat, symlinkat, unlinkat,
    utimensat,
};
use coracle_sys::rustix::io::Errno;
use coracle_wire::{Fault, Reply, Time};

use super::place::{Parents, check_sealed, entry_in_tree, find_in_tree};
use super::upload::beside;
use super::{refused, times};

/// Makes a directory for its owner alone. Leaves an existing one as it is.
pub fn make_directory(path: &[u8], top: Option<u32>) -> Result<Reply, Fault> {
    let entry = entry_in_tree(path, top, Parents::Make)?;
    let made = mkdirat(&entry.parent, &entry.name, Mode::RWXU);
    let is_directory = || {
        let stat = statat(&entry.parent, &entry.name, AtFlags::SYMLINK_NOFOLLOW);
        stat.is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Directory)
    };
    match made {
        Err(Errno::EXIST) if is_directory() => {}
        made => made.map_err(refused("make", path))?,
    }
    Ok(Reply::Done {})
}

/// Makes a link. Replaces an existing file or link.
pub fn make_link(path: &[u8], target: &[u8], mtime: Time, top: Option<u32>) -> Result<Reply, Fault> {
    let entry = entry_in_tree(path, top, Parents::Make)?;
    let target = CString::new(target).map_err(|_| refused("link", path)(Errno::INVAL))?;
    let make = |name: &CString| symlinkat(&target, &entry.parent, name);
    let ((), temporary) = beside(make).map_err(refused("link", path))?;
    let placed = utimensat(&entry.parent, &temporary, &times(mtime), AtFlags::SYMLINK_NOFOLLOW)
        .and_then(|()| renameat(&entry.parent, &temporary, &entry.parent, &entry.name));
    if placed.is_err() {
        let _ = unlinkat(&entry.parent, &temporary, AtFlags::empty());
    }
    placed.map_err(refused("link", path))?;
    Ok(Reply::Done {})
}

/// Sets a directory's permissions and time.
pub fn finish_directory(path: &[u8], mode: u32, mtime: Time, top: Option<u32>) -> Result<Reply, Fault> {
    let found = find_in_tree(path, top, OFlags::NOFOLLOW)?;
    check_sealed(&found, path, Parents::Make)?;
    finish(&found, mode, mtime).map_err(refused("finish", path))?;
    Ok(Reply::Done {})
}

fn finish(directory: &OwnedFd, mode: u32, mtime: Time) -> Result<(), Errno> {
    if FileType::from_raw_mode(fstat(directory)?.st_mode) != FileType::Directory {
        return Err(Errno::NOTDIR);
    }
    // The owner may do this even without the right to open the directory.
    let itself = format!("/proc/self/fd/{}", directory.as_raw_fd());
    utimensat(CWD, &itself, &times(mtime), AtFlags::empty())?;
    // Never set set-user-id or set-group-id for a caller.
    chmod(&itself, Mode::from_raw_mode(mode & 0o1777))
}
