//! Listing directories, page by page: a directory may hold a million names, and a tree many directories.

use std::os::fd::{AsFd, OwnedFd};

use coracle_sys::path::{self, Within};
use coracle_sys::rustix::fs::{AtFlags, Dir, FileType, OFlags, statat};
use coracle_sys::rustix::io::Errno;
use coracle_wire::{Entry, Fault};

use super::read::from_stat;
use super::{place, refused};

/// What one page holds: entries, and bytes of names (a frame is 1 MiB).
const ENTRIES_MAX: usize = 1000;
const NAMES_MAX: usize = 256 << 10;
/// Bytes of names of directories remembered to be listed later.
const PENDING_MAX: usize = 4 << 20;

/// A listing under way.
pub struct Walk {
    base: OwnedFd,
    recursive: bool,
    /// In front of every name given out.
    prefix: Vec<u8>,
    /// Directories still to be listed, relative to the base.
    pending: Vec<Vec<u8>>,
    pending_bytes: usize,
    current: Option<(Dir, OwnedFd, Vec<u8>)>,
}

impl std::fmt::Debug for Walk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Walk").field("pending", &self.pending.len()).finish_non_exhaustive()
    }
}

impl Walk {
    pub fn begin(path: &[u8], recursive: bool) -> Result<Self, Fault> {
        let base = place::find(path, OFlags::DIRECTORY)?;
        let trimmed = path.strip_suffix(b"/").unwrap_or(path);
        let prefix = match trimmed {
            b"." => Vec::new(),
            _ => [trimmed, b"/"].concat(),
        };
        Ok(Self { base, recursive, prefix, pending: vec![b".".to_vec()], pending_bytes: 0, current: None })
    }

    /// Returns the next entries, and whether there are more.
    pub fn page(&mut self) -> Result<(Vec<Entry>, bool), Fault> {
        let mut entries = Vec::new();
        let mut names = 0;
        while entries.len() < ENTRIES_MAX && names < NAMES_MAX {
            let Some(entry) = self.next()? else { return Ok((entries, false)) };
            names += entry.path.len();
            entries.push(entry);
        }
        Ok((entries, true))
    }

    fn next(&mut self) -> Result<Option<Entry>, Fault> {
        loop {
            if self.current.is_none() && !self.open_pending()? {
                return Ok(None);
            }
            let Some((directory, descriptor, relative)) = &mut self.current else { continue };
            let name = match directory.next() {
                None => {
                    self.current = None;
                    continue;
                }
                Some(entry) => entry.map_err(refused("list", relative))?,
            };
            if matches!(name.file_name().to_bytes(), b"." | b"..") {
                continue;
            }
            // It may have gone since it was listed.
            let Ok(stat) = statat(&*descriptor, name.file_name(), AtFlags::SYMLINK_NOFOLLOW) else {
                continue;
            };
            let below = match relative.as_slice() {
                b"." => name.file_name().to_bytes().to_vec(),
                relative => [relative, b"/", name.file_name().to_bytes()].concat(),
            };
            if self.recursive
                && FileType::from_raw_mode(stat.st_mode) == FileType::Directory
                && self.pending_bytes < PENDING_MAX
            {
                self.pending_bytes += below.len();
                self.pending.push(below.clone());
            }
            return Ok(Some(from_stat(&stat, [self.prefix.as_slice(), &below].concat())));
        }
    }

    fn open_pending(&mut self) -> Result<bool, Fault> {
        while let Some(relative) = self.pending.pop() {
            self.pending_bytes = self.pending_bytes.saturating_sub(relative.len());
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW;
            let opened = path::open(self.base.as_fd(), &relative, Within::Beneath, flags)
                .and_then(|descriptor| Ok((Dir::read_from(&descriptor)?, descriptor)));
            match opened {
                // Below a directory may be a filesystem that is none.
                Ok((_, descriptor)) if place::check_filesystem(descriptor.as_fd(), &relative).is_err() => {}
                Ok((directory, descriptor)) => {
                    self.current = Some((directory, descriptor, relative));
                    return Ok(true);
                }
                Err(error) if relative == b"." => return Err(refused("list", &relative)(error)),
                // Gone, replaced or too deep to name: the rest is still worth listing.
                Err(error) if error.raw_os_error() != Some(Errno::MFILE.raw_os_error()) => {}
                Err(error) => return Err(refused("list", &relative)(error)),
            }
        }
        Ok(false)
    }
}
