//! Locks between all users of the store, threads and processes alike. A lock ends with its holder.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::time::{Duration, Instant};

/// How long a waiter sleeps between attempts.
const PAUSE: Duration = Duration::from_millis(10);

/// Takes an exclusive lock; waits for it.
pub fn exclusive(path: &Path) -> io::Result<File> {
    loop {
        let file = open(path)?;
        file.lock()?;
        // The previous holder may have removed its file; other processes then lock another one.
        if is_at(&file, path)? {
            return Ok(file);
        }
    }
}

/// Takes a shared lock; waits for it.
pub fn shared(path: &Path) -> io::Result<File> {
    let file = open(path)?;
    file.lock_shared()?;
    Ok(file)
}

/// Takes an exclusive lock, if that is possible within some time.
pub fn exclusive_within(path: &Path, patience: Duration) -> io::Result<Option<File>> {
    let file = open(path)?;
    let deadline = Instant::now() + patience;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(Some(file)),
            Err(TryLockError::WouldBlock) if Instant::now() < deadline => std::thread::sleep(PAUSE),
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(error)) => return Err(error),
        }
    }
}

/// Locks something that exists, if no other process has.
pub fn try_existing(path: &Path) -> io::Result<Option<File>> {
    let file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file?,
    };
    try_file(file, path)
}

/// Locks an open file, if no other process has and it is still the one at its path.
pub fn try_file(file: File, path: &Path) -> io::Result<Option<File>> {
    match file.try_lock() {
        Ok(()) => Ok(is_at(&file, path)?.then_some(file)),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// Tells whether the file is still the one at its path.
pub fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    let ours = file.metadata()?;
    match fs::symlink_metadata(path) {
        Ok(there) => Ok((ours.dev(), ours.ino()) == (there.dev(), there.ino())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_another_has_locked_is_not_waited_for() {
        let place = tempfile::tempdir().expect("a directory can be made");
        let path = place.path().join("part");
        let file = File::create_new(&path).expect("it is ours");
        let other = try_existing(&path).expect("it can be locked").expect("no other process has");

        assert!(try_file(file, &path).expect("it can be tried").is_none());

        drop(other);
        let file = File::open(&path).expect("it is ours");
        assert!(try_file(file, &path).expect("it can be tried").is_some());
    }
}
