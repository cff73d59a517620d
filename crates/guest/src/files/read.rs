//! Reads files and their metadata.

use std::fs::File;
use std::os::unix::fs::FileExt;

use coracle_sys::rustix::fs::{FileType, OFlags, Stat, fstat, readlinkat};
use coracle_wire::{Entry, EntryKind, Fault, Reply};

use super::place::{self, Links};
use super::refused;

/// The most one answer holds.
const READ_MAX: usize = 1 << 20;

/// A file that is read piece by piece. The pieces stay those of one file, even if its name changes meanwhile.
#[derive(Debug)]
pub struct Reading {
    file: File,
    path: Vec<u8>,
}

impl Reading {
    pub fn begin(path: &[u8], links: Links, top: Option<u32>) -> Result<Self, Fault> {
        Ok(Self { file: place::open_plain(path, links, top)?, path: path.to_vec() })
    }

    pub fn describe(&self) -> Result<Entry, Fault> {
        let stat = fstat(&self.file).map_err(refused("stat", &self.path))?;
        Ok(from_stat(&stat, self.path.clone()))
    }

    /// Returns the bytes at `offset`: `max_bytes`, or as many as one answer holds; fewer only at the end of the
    /// file.
    pub fn piece(&self, offset: u64, max_bytes: u32) -> Result<Vec<u8>, Fault> {
        let mut data = vec![0; most(max_bytes)];
        let mut filled = 0;
        while filled < data.len() {
            let at = offset.saturating_add(filled as u64);
            match self.file.read_at(&mut data[filled..], at).map_err(refused("read", &self.path))? {
                0 => break,
                length => filled += length,
            }
        }
        data.truncate(filled);
        Ok(data)
    }
}

/// Tells whether a piece read with `max_bytes` reached the end of its file.
pub fn is_last(piece: &[u8], max_bytes: u32) -> bool {
    piece.len() < most(max_bytes)
}

fn most(max_bytes: u32) -> usize {
    (max_bytes as usize).min(READ_MAX)
}

/// Reads a part of a plain file.
pub fn read(path: &[u8], offset: u64, max_bytes: u32) -> Result<Reply, Fault> {
    let reading = Reading::begin(path, Links::Follow, None)?;
    Ok(Reply::File { size: reading.describe()?.size, data: reading.piece(offset, max_bytes)? })
}

/// Describes what a path names. Describes a link itself and does not follow it.
pub fn stat(path: &[u8]) -> Result<Reply, Fault> {
    let found = place::find(path, OFlags::NOFOLLOW)?;
    let stat = fstat(&found).map_err(refused("stat", path))?;
    let mut entry = from_stat(&stat, path.to_vec());
    if entry.kind == EntryKind::Symlink {
        let target = readlinkat(&found, c"", Vec::new()).map_err(refused("read the link", path))?;
        entry.target = Some(target.into_bytes());
    }
    Ok(Reply::Entries { entries: vec![entry], more: false })
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
        mtime_nanos: u32::try_from(stat.st_mtime_nsec).ok(),
        target: None,
    }
}
