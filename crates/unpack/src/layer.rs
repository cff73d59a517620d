//! Writes the layer: looks up every name below the root without following a link, and makes every file anew.

use std::collections::BTreeMap;
use std::ffi::CString;
use std::io::{Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use coracle_sys::rustix::fs::{
    self, AtFlags, FileType, Gid, Mode, OFlags, ResolveFlags, Timespec, Timestamps, Uid, XattrFlags,
};
use coracle_sys::rustix::io::Errno;
use coracle_unpack::{Attributes, Entry, Kind, Name, Outcome, Refusal, Sink};

use crate::place::{self, Replace, clear, failed, look, terminated};

/// The unpacker sets directories' times last, so it keeps their names. Half of the memory available.
const NAMES_MAX: usize = 256 << 20;
/// What a name costs beside its bytes.
const NAME_COST: usize = 96;

/// A layer being written.
pub struct Layer {
    root: OwnedFd,
    /// Keep the archive's owners; without privileges there is only one.
    owners: bool,
    /// The directory of the last entry: most entries are in the same directory as the one before.
    parent: Option<(Name, OwnedFd)>,
    times: BTreeMap<Name, u64>,
    names: usize,
    outcome: Outcome,
}

impl Sink for Layer {
    fn put(&mut self, entry: &Entry, content: &mut dyn Read) -> Result<(), Refusal> {
        self.outcome.stripped += entry.attributes.stripped;
        match entry.kind {
            Kind::Skipped => {
                self.outcome.skipped += 1;
                Ok(())
            }
            Kind::Opaque => self.hide_below(&entry.name),
            Kind::Directory => self.directory(entry),
            _ => self.leaf(entry, content),
        }
    }
}

impl Layer {
    pub fn new(root: OwnedFd, owners: bool) -> Self {
        Self { root, owners, parent: None, times: BTreeMap::new(), names: 0, outcome: Outcome::default() }
    }

    pub fn outcome(&self) -> Outcome {
        self.outcome
    }

    /// Sets the times of directories again, which writing to them changed.
    pub fn finish(&mut self) -> Result<(), Refusal> {
        for (name, time) in std::mem::take(&mut self.times) {
            // A directory that was replaced by something else needs no time any more.
            match self.open_directory(&name) {
                Ok(directory) => {
                    fs::futimens(&directory, &times(time)).map_err(failed("set times of", &name))?
                }
                Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => {}
                Err(error) => return Err(failed("open", &name)(error)),
            }
        }
        Ok(())
    }

    fn directory(&mut self, entry: &Entry) -> Result<(), Refusal> {
        let directory = self.make_directories(&entry.name, Replace::Anything)?;
        self.dress(directory.as_fd(), entry)?;
        self.names += entry.name.as_bytes().len() + NAME_COST;
        if self.names > NAMES_MAX {
            return Err(Refusal::limit("the names of the layer's directories are too long in total"));
        }
        self.times.insert(entry.name.clone(), entry.attributes.time);
        Ok(())
    }

    /// Hides what lower layers have in the directory.
    fn hide_below(&mut self, name: &Name) -> Result<(), Refusal> {
        let directory = self.make_directories(name, Replace::Whiteouts)?;
        place::mark_opaque(directory.as_fd()).map_err(failed("hide what is below", name))
    }

    /// Writes an entry that is not a directory.
    fn leaf(&mut self, entry: &Entry, content: &mut dyn Read) -> Result<(), Refusal> {
        let (parent_name, last) = entry.name.split();
        let parent = self.parent(parent_name)?;
        let last = terminated(last)?;
        let result = match &entry.kind {
            Kind::File(_) => self.file(parent.as_fd(), &last, entry, content),
            Kind::Symlink(target) => self.symlink(parent.as_fd(), &last, entry, target),
            Kind::HardLink(target) => self.hard_link(parent.as_fd(), &last, entry, target),
            Kind::Fifo => self.fifo(parent.as_fd(), &last, entry),
            Kind::Whiteout => place::whiteout(parent.as_fd(), &last, &entry.name),
            Kind::Directory | Kind::Opaque | Kind::Skipped => Ok(()),
        };
        self.parent = Some((entry.name.split().0, parent));
        result
    }

    fn file(
        &mut self,
        parent: BorrowedFd<'_>,
        last: &CString,
        entry: &Entry,
        content: &mut dyn Read,
    ) -> Result<(), Refusal> {
        clear(parent, last, &entry.name)?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = fs::openat(parent, last, flags, Mode::RUSR | Mode::WUSR);
        let mut file = std::fs::File::from(file.map_err(failed("create", &entry.name))?);
        let mut buffer = [0; 64 << 10];
        loop {
            let read = content.read(&mut buffer).map_err(Refusal::reading)?;
            if read == 0 {
                break;
            }
            file.write_all(&buffer[..read]).map_err(failed("write", &entry.name))?;
            self.outcome.bytes += read as u64;
        }
        self.dress(file.as_fd(), entry)?;
        fs::futimens(&file, &times(entry.attributes.time)).map_err(failed("set times of", &entry.name))
    }

    fn symlink(
        &self,
        parent: BorrowedFd<'_>,
        last: &CString,
        entry: &Entry,
        target: &[u8],
    ) -> Result<(), Refusal> {
        clear(parent, last, &entry.name)?;
        fs::symlinkat(terminated(target)?, parent, last).map_err(failed("create", &entry.name))?;
        self.dress_name(parent, last, entry)
    }

    fn fifo(&self, parent: BorrowedFd<'_>, last: &CString, entry: &Entry) -> Result<(), Refusal> {
        clear(parent, last, &entry.name)?;
        // The umask is 0: the file gets exactly this mode.
        let mode = Mode::from_raw_mode(entry.attributes.mode & 0o777);
        fs::mknodat(parent, last, FileType::Fifo, mode, 0).map_err(failed("create", &entry.name))?;
        self.dress_name(parent, last, entry)
    }

    /// Gives a file of this layer a second name. Looks the target up like every other name.
    fn hard_link(
        &self,
        parent: BorrowedFd<'_>,
        last: &CString,
        entry: &Entry,
        target: &Name,
    ) -> Result<(), Refusal> {
        let missing = || {
            let name = &entry.name;
            Refusal::malformed(format!(
                "{name:?} is a hard link to {target:?}, which is not a file of this layer"
            ))
        };
        if *target == entry.name || target.is_root() {
            return Err(missing());
        }
        let (target_parent, target_last) = target.split();
        let target_last = terminated(target_last)?;
        let target_parent = self.open_directory(&target_parent).map_err(|_| missing())?;
        match look(target_parent.as_fd(), &target_last).map_err(failed("look at", target))? {
            Some(stat) if FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile => {}
            _ => return Err(missing()),
        }
        clear(parent, last, &entry.name)?;
        fs::linkat(&target_parent, &target_last, parent, last, AtFlags::empty())
            .map_err(failed("link", &entry.name))
    }

    /// Sets owner, mode and attributes of an open file or directory. The owner first: changing it changes the mode.
    fn dress(&mut self, file: BorrowedFd<'_>, entry: &Entry) -> Result<(), Refusal> {
        let Attributes { mode, uid, gid, .. } = entry.attributes;
        if self.owners {
            fs::fchown(file, Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)))
                .map_err(failed("give away", &entry.name))?;
        }
        fs::fchmod(file, Mode::from_raw_mode(mode)).map_err(failed("set the mode of", &entry.name))?;
        for (name, value) in &entry.attributes.extended {
            match fs::fsetxattr(file, terminated(name)?, value, XattrFlags::empty()) {
                Ok(()) => {}
                // The filesystem has no room for the attribute or does not support it; programs cope with that.
                Err(Errno::NOSPC | Errno::TOOBIG | Errno::RANGE | Errno::NOTSUP) => {
                    self.outcome.stripped += 1
                }
                Err(error) => return Err(failed("set attributes of", &entry.name)(error)),
            }
        }
        Ok(())
    }

    /// Sets owner and time of an entry that cannot be opened.
    fn dress_name(&self, parent: BorrowedFd<'_>, last: &CString, entry: &Entry) -> Result<(), Refusal> {
        let Attributes { uid, gid, time, .. } = entry.attributes;
        if self.owners {
            fs::chownat(
                parent,
                last,
                Some(Uid::from_raw(uid)),
                Some(Gid::from_raw(gid)),
                AtFlags::SYMLINK_NOFOLLOW,
            )
            .map_err(failed("give away", &entry.name))?;
        }
        fs::utimensat(parent, last, &times(time), AtFlags::SYMLINK_NOFOLLOW)
            .map_err(failed("set times of", &entry.name))
    }

    fn parent(&mut self, name: Name) -> Result<OwnedFd, Refusal> {
        match self.parent.take() {
            Some((cached, parent)) if cached == name => Ok(parent),
            _ => self.make_directories(&name, Replace::Whiteouts),
        }
    }

    fn open_directory(&self, name: &Name) -> Result<OwnedFd, Errno> {
        let path = if name.is_root() { b"." } else { name.as_bytes() };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
        fs::openat2(&self.root, path, flags, Mode::empty(), resolve)
    }

    /// Opens a directory. Makes it and its parents where they are missing.
    fn make_directories(&mut self, name: &Name, replace: Replace) -> Result<OwnedFd, Refusal> {
        match self.open_directory(name) {
            Ok(directory) => return Ok(directory),
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => {}
            Err(error) => return Err(failed("open", name)(error)),
        }
        // The kept parent may be what is about to be replaced.
        self.parent = None;
        let mut directory = self.open_directory(&Name::default()).map_err(failed("open", name))?;
        let count = name.parts().count();
        for (index, part) in name.parts().enumerate() {
            // Only the entry itself may replace something; its parents must exist or be free names.
            let replace = if index + 1 == count { replace } else { Replace::Whiteouts };
            directory = place::enter(directory.as_fd(), &terminated(part)?, replace, name)?;
        }
        Ok(directory)
    }
}

fn times(seconds: u64) -> Timestamps {
    let time = Timespec { tv_sec: i64::try_from(seconds).unwrap_or(i64::MAX), tv_nsec: 0 };
    Timestamps { last_access: time, last_modification: time }
}
