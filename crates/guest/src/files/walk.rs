//! Lists directories page by page: a directory may hold a million names, and a tree many directories.

use std::ffi::CString;
use std::os::fd::{AsFd, OwnedFd};

use coracle_sys::path::{self, Within};
use coracle_sys::rustix::fs::{AtFlags, Dir, FileType, OFlags, readlinkat, statat};
use coracle_sys::rustix::io::Errno;
use coracle_wire::{Entry, Fault};

use super::read::from_stat;
use super::{place, refused};

/// Limits of one page: entries, and bytes of names (a frame is 1 MiB).
const ENTRIES_MAX: usize = 1000;
const NAMES_MAX: usize = 256 << 10;
/// The most bytes of names of directories that wait to be listed.
const PENDING_MAX: usize = 4 << 20;

/// What a listing covers.
#[derive(Debug, Clone, Copy)]
pub struct Scope {
    pub recursive: bool,
    /// Fail on what cannot be listed, instead of leaving it out.
    pub whole: bool,
}

/// A listing in progress.
pub struct Walk {
    base: OwnedFd,
    scope: Scope,
    /// Put in front of every name.
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
    pub fn begin(path: &[u8], scope: Scope) -> Result<Self, Fault> {
        let base = place::find(path, OFlags::DIRECTORY)?;
        let trimmed = path.strip_suffix(b"/").unwrap_or(path);
        let prefix = match trimmed {
            b"." => Vec::new(),
            _ => [trimmed, b"/"].concat(),
        };
        let pending = vec![b".".to_vec()];
        Ok(Self { base, scope, prefix, pending, pending_bytes: 0, current: None })
    }

    /// Returns the next entries, and whether there are more.
    pub fn page(&mut self) -> Result<(Vec<Entry>, bool), Fault> {
        let mut entries = Vec::new();
        let mut names = 0;
        while entries.len() < ENTRIES_MAX && names < NAMES_MAX {
            let Some(entry) = self.next()? else { return Ok((entries, false)) };
            names += entry.path.len() + entry.target.as_ref().map_or(0, Vec::len);
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
            let below = match relative.as_slice() {
                b"." => name.file_name().to_bytes().to_vec(),
                relative => [relative, b"/", name.file_name().to_bytes()].concat(),
            };
            let stat = match statat(&*descriptor, name.file_name(), AtFlags::SYMLINK_NOFOLLOW) {
                Ok(stat) => stat,
                Err(error) if self.scope.whole && error != Errno::NOENT => {
                    return Err(refused("stat", &below)(error));
                }
                // A command may have removed it since it was listed.
                Err(_) => continue,
            };
            let kind = FileType::from_raw_mode(stat.st_mode);
            let target = match kind {
                FileType::Symlink => readlinkat(&*descriptor, name.file_name(), Vec::new()).ok(),
                _ => None,
            };
            if self.scope.recursive && kind == FileType::Directory {
                match self.pending_bytes < PENDING_MAX {
                    true => {
                        self.pending_bytes += below.len();
                        self.pending.push(below.clone());
                    }
                    false if self.scope.whole => return Err(refused("list", &below)(Errno::NOBUFS)),
                    false => {}
                }
            }
            let mut entry = from_stat(&stat, [self.prefix.as_slice(), &below].concat());
            entry.target = target.map(CString::into_bytes);
            return Ok(Some(entry));
        }
    }

    fn open_pending(&mut self) -> Result<bool, Fault> {
        while let Some(relative) = self.pending.pop() {
            self.pending_bytes = self.pending_bytes.saturating_sub(relative.len());
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW;
            let opened = path::open(self.base.as_fd(), &relative, Within::Beneath, flags)
                .and_then(|descriptor| Ok((Dir::read_from(&descriptor)?, descriptor)));
            let strict = self.scope.whole || relative == b".";
            match opened {
                // A filesystem whose files are not plain data may be mounted below a directory.
                Ok((directory, descriptor)) => match place::check_filesystem(descriptor.as_fd(), &relative) {
                    Ok(()) => {
                        self.current = Some((directory, descriptor, relative));
                        return Ok(true);
                    }
                    Err(fault) if self.scope.whole => return Err(fault),
                    Err(_) => {}
                },
                Err(error) if strict => return Err(refused("list", &relative)(error)),
                // Removed, replaced or too deep to name: list the rest.
                Err(error) if error.raw_os_error() != Some(Errno::MFILE.raw_os_error()) => {}
                Err(error) => return Err(refused("list", &relative)(error)),
            }
        }
        Ok(false)
    }
}
