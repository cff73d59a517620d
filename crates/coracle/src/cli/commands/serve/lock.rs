//! One daemon serves a home. The kernel lets go of the lock when its holder dies, however it dies.

use std::fs::{File, TryLockError};
use std::path::Path;

use coracle::{Error, Result};

/// Takes the lock; nothing if another daemon has it.
pub fn only_one(home: &Path) -> Result<Option<File>> {
    let failed = |error| Error::internal("could not lock the home for a daemon", error);
    let path = home.join("serve.lock");
    let file =
        File::options().create(true).truncate(false).write(true).open(path).map_err(failed)?;
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(failed(error)),
    }
}
