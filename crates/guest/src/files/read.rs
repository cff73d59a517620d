//! Reading files and what is known of them.

use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileExt;

use coracle_sys::rustix::fs::{FileType, OFlags, Stat, fstat};
use coracle_wire::{Entry, EntryKind, Fault, Reply};

use super::{place, refused};

/// What one answer holds at most.
const READ_MAX: usize = 1 << 20;

/// Reads a part of a plain file.
pub fn read(path: &[u8], offset: u64, max_bytes: u32) -> Result<Reply, Fault> {
    let file = place::open_plain(path)?;
    let size = file.metadata().map_err(refused("stat", path))?.len();
    let mut data = vec![0; (max_bytes as usize).min(READ_MAX)];
    let mut filled = 0;
    while filled < data.len() {
        match file.read_at(&mut data[filled..], offset + filled as u64).map_err(refused("read", path))? {
            0 => break,
            length => filled += length,
        }
    }
    data.truncate(filled);
    Ok(Reply::File { data, size })
}

/// Describes what a path names; a link is described, not followed.
pub fn stat(path: &[u8]) -> Result<Reply, Fault> {
    let found = place::find(path, OFlags::NOFOLLOW)?;
    let entry = describe(found.as_fd(), path.to_vec()).map_err(refused("stat", path))?;
    Ok(Reply::Entries { entries: vec![entry], more: false })
}

fn describe(found: BorrowedFd<'_>, path: Vec<u8>) -> std::io::Result<Entry> {
    Ok(from_stat(&fstat(found)?, path))
}

pub fn from_stat(stat: &Stat, path: Vec<u8>) -> Entry {
    let kind = match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => EntryKind::File,
        FileType::Directory => EntryKind::Directory,
        FileType::Symlink => EntryKind::Symlink,
        _ => EntryKind::Other,
    };
    Entry {
        path,
        kind,
        size: stat.st_size as u64,
        mode: stat.st_mode & 0o7777,
        mtime: stat.st_mtime,
        uid: stat.st_uid,
        gid: stat.st_gid,
    }
}
