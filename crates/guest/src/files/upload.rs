//! Writes a file so that it appears complete or not at all.

use std::ffi::CString;
use std::fs::File;
use std::io::Write;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use coracle_sys::rustix::fs::{
    Access, AtFlags, FileType, Gid, Mode, OFlags, RenameFlags, Stat, Uid, accessat, fchmod, fchown, fstat,
    futimens, openat, renameat_with, statat, unlinkat,
};
use coracle_sys::rustix::io::Errno;
use coracle_wire::{Fault, Placing, Time};

use super::place::{Entry, Parents, entry_behind_links, entry_in_tree};
use super::{refused, times};

static SERIAL: AtomicU64 = AtomicU64::new(0);
/// How many files are begun and not completed.
static BEGUN: AtomicUsize = AtomicUsize::new(0);

/// A file being written beside its final name. Dropping it before the commit leaves nothing.
#[derive(Debug)]
pub struct Upload {
    entry: Entry,
    temporary: CString,
    file: File,
    mode: u32,
    mtime: Option<Time>,
    replacing: Replacing,
    committed: bool,
}

/// What to do about an existing file of the same name.
#[derive(Debug, Clone, Copy)]
pub enum Replacing {
    Refuse,
    Allow,
}

impl Upload {
    pub fn begin(
        path: &[u8],
        mode: u32,
        replacing: Replacing,
        placing: Option<Placing>,
    ) -> Result<Self, Fault> {
        let placing = placing.unwrap_or(Placing { follow: false, keep_mode: false, mtime: None, top: None });
        let entry = match placing.follow {
            true => entry_behind_links(path, Parents::Make)?,
            false => entry_in_tree(path, placing.top, Parents::Make)?,
        };
        Self::at(entry, mode, replacing, placing)
    }

    fn at(entry: Entry, mode: u32, replacing: Replacing, placing: Placing) -> Result<Self, Fault> {
        let old = match replacing {
            Replacing::Allow => replaced(&entry).map_err(refused("write", &entry.path))?,
            // An existing file is a conflict, whether or not it may be written to.
            Replacing::Refuse => None,
        };
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let make = |name: &CString| openat(&entry.parent, name, flags, Mode::RUSR | Mode::WUSR);
        let (file, temporary) = beside(make).map_err(refused("write", &entry.path))?;
        let mode = old.filter(|_| placing.keep_mode).map_or(mode, |old| old.st_mode & 0o777);
        BEGUN.fetch_add(1, Ordering::SeqCst);
        let mut upload = Self {
            entry,
            temporary,
            file: File::from(file),
            mode,
            mtime: placing.mtime,
            replacing,
            committed: false,
        };
        if let Some(old) = old {
            upload.take_owner_of(&old);
            // The old group's rights must not go to another group.
            if placing.keep_mode && !upload.is_of_group(old.st_gid) {
                upload.mode &= !0o070;
            }
        }
        Ok(upload)
    }

    /// Keeps the owner and the group of the replaced file, as writing to it would. A user who may not give files
    /// away owns the new file instead, and keeps the group if the user is a member.
    fn take_owner_of(&self, old: &Stat) {
        let owned = fstat(&self.file).is_ok_and(|new| (new.st_uid, new.st_gid) == (old.st_uid, old.st_gid));
        if !owned {
            let (uid, gid) = (Uid::from_raw(old.st_uid), Gid::from_raw(old.st_gid));
            let _ = fchown(&self.file, Some(uid), Some(gid)).or_else(|_| fchown(&self.file, None, Some(gid)));
        }
    }

    fn is_of_group(&self, gid: u32) -> bool {
        fstat(&self.file).is_ok_and(|new| new.st_gid == gid)
    }

    /// Tells whether any upload is begun. While no change is admitted, the answer cannot change.
    pub fn is_any_begun() -> bool {
        BEGUN.load(Ordering::SeqCst) > 0
    }

    pub fn write(&mut self, data: &[u8]) -> Result<(), Fault> {
        self.file.write_all(data).map_err(refused("write", &self.entry.path))
    }

    /// Gives the file its mode and its name.
    pub fn commit(mut self) -> Result<(), Fault> {
        // Never set set-user-id or set-group-id for a caller.
        fchmod(&self.file, Mode::from_raw_mode(self.mode & 0o1777))
            .map_err(refused("chmod", &self.entry.path))?;
        if let Some(mtime) = self.mtime {
            futimens(&self.file, &times(mtime)).map_err(refused("set the time of", &self.entry.path))?;
        }
        let flags = match self.replacing {
            Replacing::Allow => RenameFlags::empty(),
            Replacing::Refuse => RenameFlags::NOREPLACE,
        };
        let Entry { parent, name, path } = &self.entry;
        renameat_with(parent, &self.temporary, parent, name, flags).map_err(refused("write", path))?;
        self.committed = true;
        Ok(())
    }

    /// Returns the absolute path the file will have.
    pub fn path(&self) -> &[u8] {
        &self.entry.path
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        if !self.committed {
            let _ = unlinkat(&self.entry.parent, &self.temporary, AtFlags::empty());
        }
        BEGUN.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Makes something under an unused name, to be renamed later.
pub fn beside<T>(make: impl Fn(&CString) -> Result<T, Errno>) -> Result<(T, CString), Errno> {
    loop {
        let name = format!(".coracle-{:x}", SERIAL.fetch_add(1, Ordering::Relaxed));
        let name = CString::new(name).map_err(|_| Errno::INVAL)?;
        match make(&name) {
            // A command made a file of that name; try the next number.
            Err(Errno::EXIST) => continue,
            made => return Ok((made?, name)),
        }
    }
}

/// Returns the file of this name, if it exists and may be written to: replacing must not need less rights than
/// writing.
fn replaced(entry: &Entry) -> Result<Option<Stat>, Errno> {
    let stat = match statat(&entry.parent, &entry.name, AtFlags::SYMLINK_NOFOLLOW) {
        Err(Errno::NOENT) => return Ok(None),
        stat => stat?,
    };
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Ok(None);
    }
    match accessat(&entry.parent, &entry.name, Access::WRITE_OK, AtFlags::EACCESS) {
        // A running program cannot be written to, but it can be replaced.
        Ok(()) | Err(Errno::TXTBSY) => Ok(Some(stat)),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};

    use coracle_sys::identity::{FileUser, act_as_file_user};

    use super::*;

    const KEEPING: Placing = Placing { follow: false, keep_mode: true, mtime: None, top: None };

    /// A directory that all users may write to, with another user's file. `None` without root, who alone can make
    /// one.
    fn anothers_file(mode: u32) -> Option<tempfile::TempDir> {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("file");
        fs::write(&file, "old").expect("it is ours");
        fs::set_permissions(directory.path(), Permissions::from_mode(0o777)).expect("it is ours");
        fs::set_permissions(&file, Permissions::from_mode(mode)).expect("it is ours");
        chown(&file, Some(3000), Some(3000)).ok().map(|()| directory)
    }

    /// Writes the file as user 1000, on a separate thread.
    fn write_as_user(directory: &fs::File, groups: &[u32], replacing: Replacing) -> Result<(), Fault> {
        let parent = directory.try_clone().expect("a descriptor").into();
        let entry = Entry { parent, name: c"file".to_owned(), path: b"/file".to_vec() };
        let write = || {
            let user = FileUser { uid: 1000, gid: 1000, groups, capabilities: 0 };
            act_as_file_user(user).expect("root may act as any user");
            Upload::at(entry, 0o600, replacing, KEEPING)?.commit()
        };
        std::thread::scope(|scope| scope.spawn(write).join().expect("it does not panic"))
    }

    #[test]
    fn kept_permissions_never_reach_another_group() {
        for (groups, gid, mode) in [(&[][..], 1000, 0o606), (&[3000][..], 3000, 0o666)] {
            let Some(directory) = anothers_file(0o666) else { return };
            let opened = fs::File::open(directory.path()).expect("it is there");

            write_as_user(&opened, groups, Replacing::Allow).expect("it may be written to");

            let new = fs::metadata(directory.path().join("file")).expect("it is there");
            assert_eq!((new.uid(), new.gid(), new.mode() & 0o777), (1000, gid, mode), "{groups:?}");
        }
    }

    #[test]
    fn a_file_that_must_not_be_there_is_a_conflict_even_where_it_cannot_be_written_to() {
        let Some(directory) = anothers_file(0o600) else { return };
        let opened = fs::File::open(directory.path()).expect("it is there");
        let refused = |replacing| write_as_user(&opened, &[], replacing).map_err(|fault| fault.errno);

        assert_eq!(refused(Replacing::Refuse), Err(Some(Errno::EXIST.raw_os_error())));
        assert_eq!(refused(Replacing::Allow), Err(Some(Errno::ACCESS.raw_os_error())));
    }
}
