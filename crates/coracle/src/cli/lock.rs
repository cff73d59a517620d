//! Locks of a home, for what one process does for all: the kernel lets go of them when their holder dies, however it
//! dies.

use std::fs::{File, TryLockError};
use std::path::Path;

use coracle::{Error, Result};

/// What only one process does for a home.
#[derive(Debug, Clone, Copy)]
pub enum Duty {
    Serve,
    KeepSpares,
}

impl Duty {
    fn file(self) -> &'static str {
        match self {
            Self::Serve => "serve.lock",
            Self::KeepSpares => "stock.lock",
        }
    }
}

/// Takes the lock; nothing if somebody else has it.
pub fn only_one(home: &Path, duty: Duty) -> Result<Option<File>> {
    let failed = |error| Error::internal(format!("could not lock `{}` in the home", duty.file()), error);
    let path = home.join(duty.file());
    let file = File::options().create(true).truncate(false).write(true).open(path).map_err(failed)?;
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(failed(error)),
    }
}
