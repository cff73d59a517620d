//! Locks of entries, on files beside them. The kernel releases them with their holder.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::PathBuf;

use super::Place;

/// A lock that is held. Closed on exec, so that no other program inherits it.
#[derive(Debug)]
pub struct Lock {
    path: PathBuf,
    file: File,
}

impl Lock {
    /// Takes the right to make or remove an entry; nothing while another holds a lock.
    pub fn exclusive(place: &Place) -> io::Result<Option<Self>> {
        Self::take(place, File::try_lock)
    }

    /// Takes the right to read an entry; nothing while another makes it.
    pub fn shared(place: &Place) -> io::Result<Option<Self>> {
        Self::take(place, File::try_lock_shared)
    }

    fn take(place: &Place, lock: fn(&File) -> Result<(), TryLockError>) -> io::Result<Option<Self>> {
        let path = place.lock();
        loop {
            let file = OpenOptions::new()
                .read(true)
                .write(true)
                .create(true)
                .truncate(false)
                .mode(0o600)
                .open(&path)?;
            match lock(&file) {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Ok(None),
                Err(TryLockError::Error(error)) => return Err(error),
            }
            // A sweep may have removed the file between our open and our lock; others would lock a new one.
            let ours = file.metadata()?;
            match fs::symlink_metadata(&path) {
                Ok(named) if (named.dev(), named.ino()) == (ours.dev(), ours.ino()) => {
                    return Ok(Some(Self { path, file }));
                }
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Gives up the right to make an entry, and takes that to read it. Others that look at the entry meanwhile let go of
    /// their lock at once.
    pub fn into_shared(self) -> io::Result<Self> {
        self.file.lock_shared().map(|()| self)
    }

    /// Removes the file of an exclusive lock, so that a home collects none.
    pub fn remove(self) -> io::Result<()> {
        fs::remove_file(&self.path)
    }
}
