//! Deleting files and trees.

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use coracle_sys::rustix::fs::{AtFlags, FileType, statat, unlinkat};
use coracle_sys::rustix::io::Errno;
use coracle_sys::tree::{self, Kept};
use coracle_wire::{Fault, Reply};

use super::place::{PATH_MAX, Parents, entry};
use super::refused;
use crate::weak::{self, Wall};

/// Deleting a million files takes ten seconds.
const PATIENCE: Duration = Duration::from_secs(60);

/// Deletes a file, or with `recursive` a tree. Deletes a link itself, not its target.
///
/// Deletes a tree in parts, each under what `admit` returns: a new owner must not wait for it, and commands that
/// keep adding to the tree must not keep it going. Leaves mounts in the tree alone, and what the caller may not
/// delete.
pub fn delete<G>(path: &[u8], recursive: bool, admit: impl Fn() -> Result<G, Fault>) -> Result<Reply, Fault> {
    let began = Instant::now();
    let admit = || match began.elapsed() > PATIENCE {
        true => Err(Errno::BUSY.into()),
        false => admit().map_err(|_| Errno::STALE.into()),
    };
    let entry = entry(path, Parents::Expect)?;
    let stat =
        statat(&entry.parent, &entry.name, AtFlags::SYMLINK_NOFOLLOW).map_err(refused("delete", path))?;
    let kind = FileType::from_raw_mode(stat.st_mode);
    match (kind, recursive) {
        (FileType::Directory, false) => return Err(refused("delete", path)(Errno::ISDIR)),
        (FileType::Directory, true) if weak::off(Wall::Removal) => {
            weak::delete_by_name(&entry.path).map_err(refused("delete", path))?
        }
        (FileType::Directory, true) => {
            tree::delete_while(entry.parent.as_fd(), &entry.name, &admit).map_err(kept(path))?
        }
        _ => unlinkat(&entry.parent, &entry.name, AtFlags::empty()).map_err(refused("delete", path))?,
    }
    Ok(Reply::Done {})
}

/// Returns a function that names the file of a tree that could not be deleted.
fn kept(top: &[u8]) -> impl FnOnce(Kept) -> Fault {
    move |kept| {
        let top = top.strip_suffix(b"/").unwrap_or(top);
        let path = match kept.below.is_empty() {
            true => top.to_vec(),
            false => [top, b"/", &kept.below].concat(),
        };
        // A tree may be deeper than the longest path.
        refused("delete", &path[..path.len().min(PATH_MAX)])(kept.error)
    }
}
