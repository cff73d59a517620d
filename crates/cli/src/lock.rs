//! Locks of a home, for duties that one process has for all: the kernel releases them when their holder dies, however
//! it dies.

use std::fs::{File, TryLockError};
use std::path::PathBuf;

use coracle::{Error, Result};
use coracle_core::Home;

/// A duty of one process for a home.
#[derive(Debug, Clone, Copy)]
pub enum Duty {
    Serve,
    KeepSpares,
}

impl Duty {
    fn lock(self, home: &Home) -> PathBuf {
        match self {
            Self::Serve => home.daemon_lock(),
            Self::KeepSpares => home.spares_lock(),
        }
    }
}

/// Takes the lock; `None` if another process has it.
pub fn only_one(home: &Home, duty: Duty) -> Result<Option<File>> {
    let path = duty.lock(home);
    let name = path.file_name().unwrap_or_default().display();
    let failed = |error| Error::internal(format!("could not lock `{name}` in the home"), error);
    let file = File::options().create(true).truncate(false).write(true).open(&path).map_err(failed)?;
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(failed(error)),
    }
}
