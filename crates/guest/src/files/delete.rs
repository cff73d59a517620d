//! Deleting files and trees.

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use coracle_sys::rustix::fs::{AtFlags, FileType, fstat, statat, unlinkat};
use coracle_sys::rustix::io::Errno;
use coracle_sys::tree;
use coracle_wire::{Fault, Reply};

use super::place::{Parents, entry};
use super::refused;
use crate::weak::{self, Wall};

/// A million files take ten seconds.
const PATIENCE: Duration = Duration::from_secs(60);

/// Deletes a file, or with `recursive` a tree. A link is deleted, not what it leads to.
///
/// A tree is deleted bit by bit, each under what `admit` returns: a new owner must not wait for it, and commands that
/// keep adding to it must not keep it going.
pub fn delete<G>(path: &[u8], recursive: bool, admit: impl Fn() -> Result<G, Fault>) -> Result<Reply, Fault> {
    let began = Instant::now();
    let admit = || match began.elapsed() > PATIENCE {
        true => Err(Errno::BUSY.into()),
        false => admit().map_err(|_| Errno::STALE.into()),
    };
    let entry = entry(path, Parents::Expect)?;
    let stat =
        statat(&entry.parent, &entry.name, AtFlags::SYMLINK_NOFOLLOW).map_err(refused("delete", path))?;
    let parent = fstat(&entry.parent).map_err(refused("delete", path))?;
    let kind = FileType::from_raw_mode(stat.st_mode);
    // A mount cannot be removed, and must not be emptied in trying to. Files of one overlay have different devices.
    if kind == FileType::Directory && parent.st_dev != stat.st_dev {
        return Err(refused("delete", path)(Errno::BUSY));
    }
    match (kind, recursive) {
        (FileType::Directory, false) => return Err(refused("delete", path)(Errno::ISDIR)),
        (FileType::Directory, true) if weak::off(Wall::Removal) => {
            weak::delete_by_name(&entry.path).map_err(refused("delete", path))?
        }
        (FileType::Directory, true) => {
            tree::remove_while(entry.parent.as_fd(), &entry.name, &admit).map_err(refused("delete", path))?
        }
        _ => unlinkat(&entry.parent, &entry.name, AtFlags::empty()).map_err(refused("delete", path))?,
    }
    Ok(Reply::Done {})
}
