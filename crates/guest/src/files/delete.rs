//! Deleting files and trees.

use std::os::fd::AsFd;

use coracle_sys::rustix::fs::{AtFlags, FileType, statat, unlinkat};
use coracle_sys::rustix::io::Errno;
use coracle_sys::tree;
use coracle_wire::{Fault, Reply};

use super::place::{Parents, entry};
use super::refused;

/// Deletes a file, or with `recursive` a tree. A link is deleted, not what it leads to.
pub fn delete(path: &[u8], recursive: bool) -> Result<Reply, Fault> {
    let entry = entry(path, Parents::Expect)?;
    let stat =
        statat(&entry.parent, &entry.name, AtFlags::SYMLINK_NOFOLLOW).map_err(refused("delete", path))?;
    match (FileType::from_raw_mode(stat.st_mode), recursive) {
        (FileType::Directory, false) => return Err(refused("delete", path)(Errno::ISDIR)),
        (FileType::Directory, true) => {
            tree::remove(entry.parent.as_fd(), &entry.name).map_err(refused("delete", path))?
        }
        _ => unlinkat(&entry.parent, &entry.name, AtFlags::empty()).map_err(refused("delete", path))?,
    }
    Ok(Reply::Done {})
}
