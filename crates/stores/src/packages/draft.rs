//! An entry that is being made.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;

use coracle_core::bytes::Bytes;
use coracle_core::clock::Timestamp;
use coracle_core::install::{Draft, Sealed};
use coracle_core::{Error, Kind, Result};
use sha2::{Digest, Sha256};

use super::lock::Lock;
use super::sealed::SealedFile;
use super::{PackageFiles, Place, moment, unusable};

/// A draft, and the lock that makes it the only one.
#[derive(Debug)]
pub struct DraftFile {
    cache: PackageFiles,
    place: Place,
    /// Taken out when the entry is sealed.
    lock: Option<Lock>,
    file: File,
    hash: Sha256,
    bytes: u64,
}

impl DraftFile {
    pub fn new(cache: PackageFiles, place: Place, lock: Lock) -> io::Result<Self> {
        // A process that died may have left one; ours is the lock.
        let file =
            OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(place.draft())?;
        Ok(Self { cache, place, lock: Some(lock), file, hash: Sha256::new(), bytes: 0 })
    }

    fn finish(&mut self, now: Timestamp) -> io::Result<()> {
        self.file.write_all(&self.hash.clone().finalize())?;
        self.file.set_modified(moment(now))?;
        self.file.sync_all()?;
        fs::rename(self.place.draft(), self.place.entry())?;
        let _ = fs::remove_file(self.place.failure());
        Ok(())
    }
}

impl Write for DraftFile {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        let most = self.cache.rules.entry_max;
        if self.bytes + data.len() as u64 > most {
            let what = format!("the packages take more than {} (`install.cache_max`)", Bytes(most));
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, what));
        }
        self.file.write_all(data)?;
        self.hash.update(data);
        self.bytes += data.len() as u64;
        Ok(data.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Draft for DraftFile {
    fn seal(mut self: Box<Self>, now: Timestamp) -> Result<Box<dyn Sealed>> {
        self.finish(now).map_err(|error| Error::internal("could not keep fetched packages", error))?;
        let lock = self.lock.take().map(Lock::into_shared).transpose().map_err(unusable)?;
        let sealed = lock.map(|lock| SealedFile::under(&self.place, lock)).transpose().map_err(unusable)?;
        let room = self.cache.make_room(&self.place.directory);
        room.map_err(unusable)?;
        let gone = || Error::new(Kind::Conflict, "fetched packages were removed before they were used");
        Ok(Box::new(sealed.flatten().ok_or_else(gone)?))
    }

    fn fail(self: Box<Self>, reason: &str) {
        // Renamed, so that callers that wait see another file than before. That it is not there costs them a try.
        let draft = self.place.draft();
        if fs::write(&draft, reason).is_ok() {
            let _ = fs::rename(&draft, self.place.failure());
        }
    }
}

impl Drop for DraftFile {
    fn drop(&mut self) {
        if self.lock.is_some() {
            let _ = fs::remove_file(self.place.draft());
        }
    }
}
