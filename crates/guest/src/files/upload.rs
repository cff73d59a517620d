//! Writing a file so that it is there whole or not at all.

use std::ffi::CString;
use std::fs::File;
use std::io::Write;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use coracle_sys::rustix::fs::{AtFlags, Mode, OFlags, RenameFlags, fchmod, openat, renameat_with, unlinkat};
use coracle_sys::rustix::io::Errno;
use coracle_wire::Fault;

use super::place::{Entry, Parents, entry};
use super::refused;

static SERIAL: AtomicU64 = AtomicU64::new(0);
/// Files that are begun and not completed.
static BEGUN: AtomicUsize = AtomicUsize::new(0);

/// A file being written beside its final name. Dropping it before the commit leaves nothing.
#[derive(Debug)]
pub struct Upload {
    entry: Entry,
    temporary: CString,
    file: File,
    mode: u32,
    overwrite: bool,
    committed: bool,
}

impl Upload {
    pub fn begin(path: &[u8], mode: u32, overwrite: bool) -> Result<Self, Fault> {
        let entry = entry(path, Parents::Make)?;
        let (file, temporary) = loop {
            let name = CString::new(format!(".coracle-{:x}", SERIAL.fetch_add(1, Ordering::Relaxed)))
                .map_err(|_| refused("name", path)(Errno::INVAL))?;
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            match openat(&entry.parent, &name, flags, Mode::RUSR | Mode::WUSR) {
                // A command made a file of that name; the next number is as good.
                Err(Errno::EXIST) => continue,
                opened => break (opened.map(File::from).map_err(refused("write", path))?, name),
            }
        };
        BEGUN.fetch_add(1, Ordering::SeqCst);
        Ok(Self { entry, temporary, file, mode, overwrite, committed: false })
    }

    /// Tells whether a file is half written somewhere. Where no change is admitted, the answer stays true or false.
    pub fn is_any_begun() -> bool {
        BEGUN.load(Ordering::SeqCst) > 0
    }

    pub fn write(&mut self, data: &[u8]) -> Result<(), Fault> {
        self.file.write_all(data).map_err(refused("write", &self.entry.path))
    }

    /// Gives the file its mode and its name.
    pub fn commit(mut self) -> Result<(), Fault> {
        // Bits that lend rights are never set for a caller.
        fchmod(&self.file, Mode::from_raw_mode(self.mode & 0o1777))
            .map_err(refused("chmod", &self.entry.path))?;
        let flags = if self.overwrite { RenameFlags::empty() } else { RenameFlags::NOREPLACE };
        let Entry { parent, name, path } = &self.entry;
        renameat_with(parent, &self.temporary, parent, name, flags).map_err(refused("write", path))?;
        self.committed = true;
        Ok(())
    }

    /// Returns the absolute path it will have.
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
