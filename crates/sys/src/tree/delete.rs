//! Deletes a directory tree for a caller, with no more rights than the caller has. What cannot be deleted stays as
//! and where it is, and so does everything mounted in the tree.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, ResolveFlags, fstat, openat2, unlinkat};
use rustix::io::Errno;

use super::{entries, ignore_missing};

/// Entries deleted under one admission.
const BATCH: usize = 256;

/// Directories kept open on the way down. Those above are opened again from below.
const OPEN_MAX: usize = 32;

/// What could not be deleted, and why.
#[derive(Debug)]
pub struct Kept {
    /// Its path below the tree's top; empty for the top itself.
    pub below: Vec<u8>,
    pub error: io::Error,
}

/// Deletes the directory `name` in `parent` and everything below it, up to the first entry that cannot be deleted.
/// Succeeds if it is missing.
///
/// Calls `admit` before each batch of entries and holds the result while it deletes them. Other processes may add
/// to the tree meanwhile and so keep this from ever ending; `admit` decides when to stop.
pub fn delete_while<G>(
    parent: BorrowedFd<'_>,
    name: &CStr,
    admit: &dyn Fn() -> io::Result<G>,
) -> Result<(), Kept> {
    let mut deletion = Deletion { parent, admit, way: Vec::new() };
    deletion.enter(name)?;
    while let Some(level) = deletion.way.last_mut() {
        match level.inner.pop() {
            Some(inner) => deletion.enter(&inner)?,
            None => deletion.leave()?,
        }
    }
    Ok(())
}

struct Deletion<'a, G> {
    parent: BorrowedFd<'a>,
    admit: &'a dyn Fn() -> io::Result<G>,
    /// The directories from the top down to the one whose entries are being deleted.
    way: Vec<Level>,
}

struct Level {
    name: CString,
    /// `None` while many directories below it are open.
    directory: Option<OwnedFd>,
    device_and_inode: (u64, u64),
    /// Its directories that are not empty.
    inner: Vec<CString>,
}

impl<G> Deletion<'_, G> {
    /// Deletes a directory inside the last one on the way, if it is empty. Otherwise makes it the last one, and
    /// deletes its files and its empty directories.
    fn enter(&mut self, name: &CStr) -> Result<(), Kept> {
        let opened = match self.remove_directory(self.way.len(), name) {
            // The kernel refuses to remove a mount point, even if an empty directory is mounted there.
            Err(Errno::NOTEMPTY | Errno::EXIST) => {
                self.directory(self.way.len()).and_then(|inside| open(inside, name))
            }
            removed => return removed.map_err(|error| self.kept(Some(name), error)),
        };
        let level = opened.and_then(|directory| {
            let stat = fstat(&directory)?;
            Ok(Level {
                name: name.to_owned(),
                directory: Some(directory),
                device_and_inode: (stat.st_dev, stat.st_ino),
                inner: Vec::new(),
            })
        });
        match level {
            Err(Errno::NOENT) => return Ok(()),
            level => self.way.push(level.map_err(|error| self.kept(Some(name), error))?),
        }
        if let Some(far) = self.way.len().checked_sub(OPEN_MAX + 1) {
            self.way[far].directory = None;
        }
        self.delete_entries()
    }

    /// Deletes the last directory on the way, which was emptied. If new entries appeared meanwhile, goes over it
    /// again.
    fn leave(&mut self) -> Result<(), Kept> {
        self.open_above().map_err(|error| self.kept(None, error))?;
        let Some(level) = self.way.last() else { return Ok(()) };
        match self.remove_directory(self.way.len() - 1, &level.name) {
            Err(Errno::NOTEMPTY | Errno::EXIST) => self.delete_entries(),
            removed => {
                removed.map_err(|error| self.kept(None, error))?;
                self.way.pop();
                Ok(())
            }
        }
    }

    /// Deletes the entries of the last directory on the way, except directories that are not empty.
    fn delete_entries(&mut self) -> Result<(), Kept> {
        let depth = self.way.len();
        let directory = self.directory(depth).map_err(|error| self.kept(None, error))?;
        let mut inner = Vec::new();
        for batch in entries(directory).map_err(|error| self.kept(None, error))?.chunks(BATCH) {
            let _admitted = (self.admit)().map_err(|error| self.kept(None, error))?;
            for (name, kind) in batch {
                let flags = match kind {
                    FileType::Directory => AtFlags::REMOVEDIR,
                    _ => AtFlags::empty(),
                };
                match unlinkat(directory, name, flags) {
                    Err(Errno::NOTEMPTY | Errno::EXIST | Errno::ISDIR) => inner.push(name.clone()),
                    deleted => ignore_missing(deleted).map_err(|error| self.kept(Some(name), error))?,
                }
            }
        }
        if let Some(level) = self.way.last_mut() {
            level.inner = inner;
        }
        Ok(())
    }

    fn remove_directory(&self, depth: usize, name: &CStr) -> Result<(), Errno> {
        let _admitted = (self.admit)().map_err(errno)?;
        match unlinkat(self.directory(depth)?, name, AtFlags::REMOVEDIR) {
            Err(Errno::NOENT) => Ok(()),
            removed => removed,
        }
    }

    /// Returns the directory `depth` levels down the way; level 0 is the parent of the tree.
    fn directory(&self, depth: usize) -> Result<BorrowedFd<'_>, Errno> {
        match depth.checked_sub(1) {
            None => Ok(self.parent),
            Some(index) => self
                .way
                .get(index)
                .and_then(|level| level.directory.as_ref())
                .map(AsFd::as_fd)
                .ok_or(Errno::BADF),
        }
    }

    /// Opens the directory above the last one again if it was closed. Fails if the last one was moved: another is
    /// above it then.
    fn open_above(&mut self) -> Result<(), Errno> {
        let [.., above, Level { directory: Some(last), .. }] = self.way.as_mut_slice() else { return Ok(()) };
        if above.directory.is_none() {
            let opened = open(last.as_fd(), c"..")?;
            let stat = fstat(&opened)?;
            if (stat.st_dev, stat.st_ino) != above.device_and_inode {
                return Err(Errno::BUSY);
            }
            above.directory = Some(opened);
        }
        Ok(())
    }

    fn kept(&self, name: Option<&CStr>, error: impl Into<io::Error>) -> Kept {
        let names: Vec<&[u8]> = self
            .way
            .iter()
            .map(|level| level.name.as_c_str())
            .chain(name)
            .skip(1)
            .map(CStr::to_bytes)
            .collect();
        Kept { below: names.join(&b'/'), error: error.into() }
    }
}

/// Opens a directory on the same mount.
fn open(directory: BorrowedFd<'_>, name: &CStr) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    match openat2(directory, name, flags, Mode::empty(), ResolveFlags::NO_XDEV | ResolveFlags::NO_SYMLINKS) {
        Err(Errno::XDEV) => Err(Errno::BUSY),
        opened => opened,
    }
}

fn errno(error: io::Error) -> Errno {
    Errno::from_io_error(&error).unwrap_or(Errno::IO)
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};

    use rustix::fs::mkdirat;

    use super::*;

    fn delete(parent: &std::path::Path, admit: &dyn Fn() -> io::Result<()>) -> Result<(), Kept> {
        let parent = File::open(parent).expect("a directory");
        delete_while(parent.as_fd(), c"top", admit)
    }

    #[test]
    fn a_tree_deeper_than_paths_and_descriptors_go_is_deleted() {
        let home = tempfile::tempdir().expect("a directory can be made");
        let mut inside = OwnedFd::from(File::open(home.path()).expect("a directory"));
        for name in std::iter::once(c"top").chain(std::iter::repeat_n(c"directory", 2000)) {
            mkdirat(&inside, name, Mode::RWXU).expect("a directory can be made");
            inside = open(inside.as_fd(), name).expect("it is there");
            rustix::fs::symlinkat("/", &inside, c"link").expect("a link can be made");
            mkdirat(&inside, c"beside", Mode::RWXU).expect("a directory can be made");
            rustix::fs::symlinkat("/", &inside, c"beside/link").expect("a link can be made");
        }

        delete(home.path(), &|| Ok(())).expect("a tree");

        assert_eq!(fs::read_dir(home.path()).expect("a directory").count(), 0);
    }

    #[test]
    fn what_is_left_stays_where_it_is() {
        let home = tempfile::tempdir().expect("a directory can be made");
        let inner = home.path().join("top/a/b/c");
        fs::create_dir_all(&inner).expect("directories can be made");
        fs::write(inner.join("file"), "").expect("a file can be written");
        let asked = std::cell::Cell::new(0);
        // Once for each directory on the way and for what is in it.
        let admit = || match asked.replace(asked.get() + 1) {
            6.. => Err(Errno::STALE.into()),
            _ => Ok(()),
        };

        let kept = delete(home.path(), &admit).expect_err("it was not admitted");

        assert_eq!(kept.below, b"a/b/c");
        assert!(inner.join("file").exists(), "{kept:?}");
    }

    #[test]
    fn a_directory_that_is_moved_while_its_parents_are_closed_leads_nowhere_else() {
        let home = tempfile::tempdir().expect("a directory can be made");
        let deep =
            (0..OPEN_MAX + 8).fold(home.path().join("top"), |path, number| path.join(number.to_string()));
        fs::create_dir_all(deep.join("last")).expect("directories can be made");
        fs::write(deep.join("last/file"), "").expect("a file can be written");
        let elsewhere = home.path().join("elsewhere");
        fs::create_dir_all(elsewhere.join("4")).expect("directories can be made");
        let moving = home.path().join("top/0/1/2/3");
        let admit = || {
            if !deep.exists() && moving.exists() {
                fs::rename(&moving, elsewhere.join("3")).expect("a directory can be moved");
            }
            Ok(())
        };

        let kept = delete(home.path(), &admit).expect_err("the way up is another one");

        assert_eq!(kept.error.raw_os_error(), Some(libc::EBUSY), "{kept:?}");
        assert!(elsewhere.join("4").exists() && home.path().join("top/0/1/2").exists());
    }
}
