//! A local directory, and everything below it.
//!
//! All of it is reached from the directory's descriptor, and no link below it is followed: a link may be replaced at
//! any moment, and a sandbox chooses the names in a tree it sends.

use std::ffi::{CString, OsStr};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use coracle::{Error, Kind, Result};
use coracle_engine::files::{FileKind, Node, Original, Time, Tree};
use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Mode, OFlags, RenameFlags, ResolveFlags, Stat, Timespec, Timestamps,
    UTIME_OMIT, chmod, fchmod, fstat, futimens, mkdirat, open, openat, openat2, readlinkat, renameat,
    renameat_with, statat, symlinkat, unlinkat, utimensat,
};
use rustix::io::Errno;

use super::tree::{Merge, joined, parent};

/// Permissions of a file whose sandbox does not report them.
const MODE: u32 = 0o644;
/// As many files as a sandbox lists at once, so that a copied tree can be copied back.
const FILES_MAX: usize = 100_000;
/// The permission bits that are kept.
const KEPT: u32 = 0o1777;

/// A directory.
#[derive(Debug)]
pub struct Root {
    directory: OwnedFd,
    /// Its name in messages.
    shown: PathBuf,
}

/// What to do about a link in place of a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trust {
    /// Follow it: the calling person has named it.
    Named,
    /// Refuse it: its name comes from elsewhere.
    Derived,
}

impl Root {
    pub fn open(path: &Path, trust: Trust) -> Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let links = if trust == Trust::Named { OFlags::empty() } else { OFlags::NOFOLLOW };
        let directory = open(path, flags | links, Mode::empty()).map_err(failed("open", path))?;
        Ok(Self { directory, shown: path.to_owned() })
    }

    /// Opens the directory of a file. Returns it and the file's name.
    pub fn around(path: &Path) -> Result<(Self, Vec<u8>)> {
        let name = path.file_name().ok_or_else(|| Error::invalid("to", "names no file"))?;
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let root = Self::open(parent.unwrap_or(Path::new(".")), Trust::Named)?;
        Ok((root, name.as_bytes().to_vec()))
    }

    /// Returns everything below it, directories before their contents.
    pub fn scan(&self) -> Result<Tree> {
        self.scan_at_most(FILES_MAX)
    }

    fn scan_at_most(&self, max: usize) -> Result<Tree> {
        let stat = fstat(&self.directory).map_err(self.failed("read", b""))?;
        let mut nodes = Vec::new();
        let mut pending = vec![Vec::new()];
        while let Some(path) = pending.pop() {
            let found = self.list(&path).map_err(self.failed("read", &path))?;
            let directories = found.iter().filter(|node| node.kind == FileKind::Dir);
            pending.extend(directories.map(|node| node.path.clone()));
            nodes.extend(found);
            if nodes.len() > max {
                let message = format!("`{}` holds more than {max} files", self.shown.display());
                return Err(Error::new(Kind::LimitExceeded, message).hint("copy its directories one by one"));
            }
        }
        Ok(Tree { root: node(Vec::new(), &stat), nodes })
    }

    fn list(&self, path: &[u8]) -> io::Result<Vec<Node>> {
        let directory = self.at(path, OFlags::RDONLY | OFlags::DIRECTORY)?;
        let mut nodes = Vec::new();
        for entry in Dir::read_from(&directory)? {
            let entry = entry?;
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            let stat = statat(&directory, name, AtFlags::SYMLINK_NOFOLLOW)?;
            let mut node = node(joined(path, name.to_bytes()), &stat);
            if node.kind == FileKind::Symlink {
                node.target = readlinkat(&directory, name, Vec::new())?.into_bytes();
            }
            nodes.push(node);
        }
        Ok(nodes)
    }

    /// Opens a file for reading. Also returns its metadata.
    pub fn read(&self, path: &[u8]) -> Result<(File, Node)> {
        let opened = || {
            // Non-blocking: it may be a pipe by now.
            let file = self.at(path, OFlags::RDONLY | OFlags::NONBLOCK)?;
            let node = node(path.to_vec(), &fstat(&file)?);
            match node.kind {
                FileKind::File => Ok((File::from(file), node)),
                _ => Err(io::Error::from(Errno::INVAL)),
            }
        };
        opened().map_err(self.failed("read", path))
    }

    /// Returns the metadata of a name, if it exists.
    pub fn find(&self, path: &[u8]) -> Result<Option<Node>> {
        let found = || -> io::Result<_> {
            if path.is_empty() {
                return Ok(Some(node(Vec::new(), &fstat(&self.directory)?)));
            }
            let (parent, name) = self.place(path)?;
            match statat(&parent, &name, AtFlags::SYMLINK_NOFOLLOW) {
                Err(Errno::NOENT) => Ok(None),
                stat => Ok(Some(node(path.to_vec(), &stat?))),
            }
        };
        found().map_err(self.failed("look at", path))
    }

    /// Makes a directory, unless it exists.
    pub fn make_directory(&self, path: &[u8]) -> Result<()> {
        let make = || -> io::Result<()> {
            let (parent, name) = self.place(path)?;
            match mkdirat(&parent, &name, Mode::RWXU) {
                Err(Errno::EXIST) if self.at(path, OFlags::PATH | OFlags::DIRECTORY).is_ok() => Ok(()),
                made => Ok(made?),
            }
        };
        make().map_err(self.failed("make", path))
    }

    /// Makes a link; replaces an existing file or link.
    pub fn make_link(&self, path: &[u8], node: &Node) -> Result<()> {
        let make = || -> io::Result<()> {
            let (parent, name) = self.place(path)?;
            let target = CString::new(node.target.as_slice())?;
            let ((), temporary) = beside(|temporary| symlinkat(&target, &parent, temporary))?;
            let temporary = Temporary { parent, name: temporary };
            utimensat(&temporary.parent, &temporary.name, &times(node.mtime), AtFlags::SYMLINK_NOFOLLOW)?;
            temporary.rename(&name)
        };
        make().map_err(self.failed("write", path))
    }

    /// Writes a file under a temporary name, and renames it once `fill` has written all of it. Returns its length.
    pub fn write_file(
        &self,
        path: &[u8],
        fill: &mut dyn FnMut(&mut File) -> Result<Original>,
    ) -> Result<u64> {
        let begin = || -> io::Result<_> {
            let (parent, name) = self.place(path)?;
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let (file, temporary) =
                beside(|temporary| openat(&parent, temporary, flags, Mode::RUSR | Mode::WUSR))?;
            Ok((File::from(file), Temporary { parent, name: temporary }, name))
        };
        let (mut file, temporary, name) = begin().map_err(self.failed("write", path))?;
        let original = fill(&mut file)?;
        let complete = || -> io::Result<()> {
            fchmod(&file, Mode::from_raw_mode(original.mode.unwrap_or(MODE) & KEPT))?;
            original.mtime.map_or(Ok(()), |mtime| futimens(&file, &times(mtime)))?;
            temporary.rename(&name)
        };
        complete().map_err(self.failed("write", path))?;
        Ok(original.bytes)
    }

    /// Sets the permissions and time of a directory, once it is complete.
    pub fn finish(&self, node: &Node) -> Result<()> {
        let finish = || -> io::Result<()> {
            let directory = self.at(&node.path, OFlags::PATH | OFlags::DIRECTORY)?;
            let itself = itself(&directory);
            utimensat(CWD, &itself, &times(node.mtime), AtFlags::empty())?;
            Ok(chmod(&itself, Mode::from_raw_mode(node.mode & KEPT))?)
        };
        finish().map_err(self.failed("write", &node.path))
    }

    /// Makes a directory beside `name`, which takes that name when it is complete.
    pub fn stage(&self, name: &[u8]) -> Result<Stage<'_>> {
        let make = || -> io::Result<_> {
            let ((), temporary) = beside(|temporary| mkdirat(&self.directory, temporary, Mode::RWXU))?;
            let name = CString::new(name)?;
            let place = self.shown.join(OsStr::from_bytes(temporary.as_bytes()));
            let directory = self.at(temporary.as_bytes(), OFlags::PATH | OFlags::DIRECTORY)?;
            let root = Root { directory, shown: place };
            Ok(Stage { around: self, root, temporary, name, committed: false })
        };
        make().map_err(self.failed("write", name))
    }

    /// Makes the stages of a tree that goes into this directory.
    pub fn stages<'a>(&'a self, merge: &'a Merge<'a>) -> Result<Stages<'a>> {
        let mut stages = Stages { root: self, merge, made: 0, committed: false };
        for directory in &merge.receiving {
            self.make_directory(&merge.stage(directory))?;
            stages.made += 1;
        }
        Ok(stages)
    }

    /// Renames something; replaces an existing file or link.
    fn rename(&self, from: &[u8], to: &[u8]) -> Result<()> {
        let rename = || -> io::Result<()> {
            let ((from, old), (to, new)) = (self.place(from)?, self.place(to)?);
            Ok(renameat(&from, &old, &to, &new)?)
        };
        rename().map_err(self.failed("write", to))
    }

    /// Removes a directory with its contents, whatever their permissions.
    fn remove_tree(&self, path: &[u8]) -> io::Result<()> {
        let mut directories = vec![path.to_vec()];
        let mut looked_at = 0;
        while let Some(directory) = directories.get(looked_at).cloned() {
            looked_at += 1;
            chmod(itself(&self.at(&directory, OFlags::PATH | OFlags::DIRECTORY)?), Mode::RWXU)?;
            for node in self.list(&directory)? {
                match node.kind {
                    FileKind::Dir => directories.push(node.path),
                    _ => self.unlink(&node.path, AtFlags::empty())?,
                }
            }
        }
        directories.iter().rev().try_for_each(|directory| self.unlink(directory, AtFlags::REMOVEDIR))
    }

    fn unlink(&self, path: &[u8], flags: AtFlags) -> io::Result<()> {
        let (parent, name) = self.place(path)?;
        Ok(unlinkat(&parent, &name, flags)?)
    }

    /// Restores the time of a directory.
    fn date(&self, directory: &Node) -> io::Result<()> {
        let opened = self.at(&directory.path, OFlags::PATH | OFlags::DIRECTORY)?;
        Ok(utimensat(CWD, itself(&opened), &times(directory.mtime), AtFlags::empty())?)
    }

    /// Opens something below this directory.
    fn at(&self, path: &[u8], flags: OFlags) -> io::Result<OwnedFd> {
        let path: &[u8] = if path.is_empty() { b"." } else { path };
        let how = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        Ok(openat2(&self.directory, path, flags | OFlags::CLOEXEC | OFlags::NOFOLLOW, Mode::empty(), how)?)
    }

    /// Returns the parent directory of a path below, and the last name.
    fn place(&self, path: &[u8]) -> io::Result<(OwnedFd, CString)> {
        let parent = parent(path);
        let name = path.strip_prefix(parent).unwrap_or(path);
        let name = CString::new(name.strip_prefix(b"/").unwrap_or(name))?;
        Ok((self.at(parent, OFlags::PATH | OFlags::DIRECTORY)?, name))
    }

    /// Returns a path below it as messages show it.
    pub fn shown(&self, path: &[u8]) -> PathBuf {
        if path.is_empty() { self.shown.clone() } else { self.shown.join(OsStr::from_bytes(path)) }
    }

    pub fn failed<E: Into<io::Error>>(
        &self,
        attempted: &str,
        path: &[u8],
    ) -> impl FnOnce(E) -> Error + use<E> {
        failed(attempted, &self.shown(path))
    }
}

/// A directory that is filled under a temporary name. Dropping it before the commit leaves nothing.
#[derive(Debug)]
pub struct Stage<'a> {
    around: &'a Root,
    pub root: Root,
    temporary: CString,
    name: CString,
    committed: bool,
}

impl Stage<'_> {
    /// Gives it its name, which must be free.
    pub fn commit(mut self) -> Result<()> {
        let around = &self.around.directory;
        renameat_with(around, &self.temporary, around, &self.name, RenameFlags::NOREPLACE)
            .map_err(self.around.failed("write", self.name.as_bytes()))?;
        self.committed = true;
        Ok(())
    }
}

impl Drop for Stage<'_> {
    fn drop(&mut self) {
        if !self.committed {
            let _ = self.around.remove_tree(self.temporary.as_bytes());
        }
    }
}

/// Directories whose contents get their names later. Dropping them before the commit leaves everything as it was.
#[derive(Debug)]
pub struct Stages<'a> {
    root: &'a Root,
    merge: &'a Merge<'a>,
    made: usize,
    committed: bool,
}

impl Stages<'_> {
    /// Gives everything its name.
    pub fn commit(mut self) -> Result<()> {
        // From the first rename on, times have changed.
        self.committed = true;
        self.merge.commit(|from, to| self.root.rename(from, to))
    }
}

impl Drop for Stages<'_> {
    fn drop(&mut self) {
        for directory in &self.merge.receiving[..self.made] {
            let _ = self.root.remove_tree(&self.merge.stage(directory));
            if !self.committed {
                let _ = self.root.date(directory);
            }
        }
    }
}

/// A file or link under a temporary name. Dropping it removes it.
struct Temporary {
    parent: OwnedFd,
    name: CString,
}

impl Temporary {
    fn rename(&self, name: &CString) -> io::Result<()> {
        Ok(renameat(&self.parent, &self.name, &self.parent, name)?)
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        // After the rename nothing has this name.
        let _ = unlinkat(&self.parent, &self.name, AtFlags::empty());
    }
}

/// Makes something under a free temporary name.
fn beside<T>(make: impl Fn(&CString) -> std::result::Result<T, Errno>) -> io::Result<(T, CString)> {
    loop {
        let name = CString::new(super::temporary_name().map_err(io::Error::other)?)?;
        match make(&name) {
            Err(Errno::EXIST) => continue,
            made => return Ok((made?, name)),
        }
    }
}

/// Returns a path to an open file, for calls that accept no descriptor opened with `O_PATH`.
fn itself(opened: &OwnedFd) -> String {
    format!("/proc/self/fd/{}", opened.as_raw_fd())
}

fn node(path: Vec<u8>, stat: &Stat) -> Node {
    let mtime = Time { seconds: stat.st_mtime, nanos: u32::try_from(stat.st_mtime_nsec).unwrap_or(0) };
    Node { path, kind: kind(stat), mode: stat.st_mode & 0o7777, mtime, target: Vec::new() }
}

fn kind(stat: &Stat) -> FileKind {
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => FileKind::File,
        FileType::Directory => FileKind::Dir,
        FileType::Symlink => FileKind::Symlink,
        _ => FileKind::Other,
    }
}

fn times(mtime: Time) -> Timestamps {
    Timestamps {
        last_access: Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
        last_modification: Timespec { tv_sec: mtime.seconds, tv_nsec: mtime.nanos.into() },
    }
}

/// Returns a function that makes an error from what was attempted on which path.
pub fn failed<E: Into<io::Error>>(attempted: &str, path: &Path) -> impl FnOnce(E) -> Error + use<E> {
    let message = format!("could not {attempted} `{}`", path.display());
    move |error| Error::new(Kind::Invalid, message).caused_by(error.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn room() -> (tempfile::TempDir, Root) {
        let room = tempfile::tempdir().expect("a directory can be made");
        let root = Root::open(room.path(), Trust::Named).expect("it is there");
        (room, root)
    }

    #[test]
    fn a_tree_has_so_many_files_and_no_more() {
        let (room, root) = room();
        std::fs::create_dir(room.path().join("d")).expect("ours");
        std::fs::write(room.path().join("d/f"), "").expect("ours");

        assert_eq!(root.scan_at_most(2).expect("two").nodes.len(), 2);
        assert_eq!(root.scan_at_most(1).expect_err("two are more").kind, Kind::LimitExceeded);
    }

    #[test]
    fn a_stage_goes_whatever_it_was_called_meanwhile_and_whatever_is_closed_in_it() {
        let (room, root) = room();
        let stage = root.stage(b"name").expect("a stage");
        stage.root.make_directory(b"closed").expect("ours");
        std::fs::create_dir(room.path().join(OsStr::from_bytes(stage.temporary.as_bytes())).join("closed/d"))
            .expect("ours");
        let closed =
            Node { path: b"closed".to_vec(), mode: 0, ..root.find(b"").expect("it").expect("there") };
        stage.root.finish(&closed).expect("ours");

        drop(stage);

        assert_eq!(room.path().read_dir().expect("ours").count(), 0);
    }
}
