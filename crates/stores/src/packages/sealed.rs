//! An entry that can be read, and is checked while it is.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::PathBuf;

use coracle_core::clock::Timestamp;
use coracle_core::install::Sealed;
use coracle_core::{Error, Result};
use sha2::{Digest, Sha256};

use super::lock::Lock;
use super::{Place, moment};

/// The length of the hash at the end of a file.
pub const SEAL_LEN: u64 = 32;

/// An entry, and the lock that keeps it.
#[derive(Debug)]
pub struct SealedFile {
    path: PathBuf,
    file: File,
    bytes: u64,
    _lock: Lock,
}

impl SealedFile {
    /// Opens an entry; nothing where there is none, or another caller makes or removes it.
    pub fn open(place: &Place) -> io::Result<Option<Self>> {
        if !place.entry().exists() {
            return Ok(None);
        }
        match Lock::shared(place)? {
            Some(lock) => Self::under(place, lock),
            None => Ok(None),
        }
    }

    /// Opens an entry under a lock that is held.
    pub fn under(place: &Place, lock: Lock) -> io::Result<Option<Self>> {
        let path = place.entry();
        let file = match File::open(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file?,
        };
        let bytes = file.metadata()?.len().saturating_sub(SEAL_LEN);
        Ok(Some(Self { path, file, bytes, _lock: lock }))
    }

    /// Notes that it was used. That this fails matters only for how long it is kept.
    pub fn used(&self, now: Timestamp) {
        let _ = self.file.set_modified(moment(now));
    }
}

impl Sealed for SealedFile {
    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn read(&self) -> Result<Box<dyn Read + '_>> {
        let mut file = &self.file;
        file.seek(SeekFrom::Start(0))
            .map_err(|error| Error::internal("could not read kept packages", error))?;
        Ok(Box::new(Checked { entry: self, hash: Some(Sha256::new()), left: self.bytes }))
    }
}

/// Hands out the contents, and an error in the place of the end if they are not what was sealed.
struct Checked<'a> {
    entry: &'a SealedFile,
    hash: Option<Sha256>,
    left: u64,
}

impl Read for Checked<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let Some(hash) = &mut self.hash else { return Ok(0) };
        let most = usize::try_from(self.left).unwrap_or(usize::MAX).min(buffer.len());
        let mut file = &self.entry.file;
        if self.left > 0 {
            let read = file.read(&mut buffer[..most])?;
            hash.update(&buffer[..read]);
            self.left -= read as u64;
            if read > 0 || most == 0 {
                return Ok(read);
            }
        }
        let (mut seal, found) = ([0; SEAL_LEN as usize], self.hash.take().map(|hash| hash.finalize()));
        let whole = file.read_exact(&mut seal).is_ok() && found.is_some_and(|found| found[..] == seal);
        if self.left == 0 && whole {
            return Ok(0);
        }
        // Whoever asks next makes it anew.
        let _ = fs::remove_file(&self.entry.path);
        Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "kept packages were damaged on the disk; they were removed",
        ))
    }
}
