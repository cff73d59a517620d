//! The right to make or destroy one sandbox: a lock on a file named after it.
//!
//! The kernel releases the lock when its holder dies, however it dies. Each holder removes the file, so a home
//! collects none; a process that waited on a removed file notices that and starts over.

use std::fs::{self, File, TryLockError};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use coracle_core::cancel::Cancel;
use coracle_core::error::{Error, Kind, Result};
use coracle_core::home::Home;
use coracle_core::ids::SandboxId;
use coracle_core::store::Work;

use super::{holder, home};

/// The pause between two attempts to take a lock: short, because most holders are done in milliseconds.
const PAUSE: Duration = Duration::from_millis(1);
const PAUSE_MAX: Duration = Duration::from_millis(25);
/// How often a waiting process checks whether the holder was stopped.
const PATIENCE: Duration = Duration::from_secs(5);

/// Removes the files of dead holders.
pub fn sweep(home: &Home) {
    let entries = fs::read_dir(home.locks()).into_iter().flatten().flatten();
    for id in entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()) {
        // Releasing a lock removes its file. A lock that cannot be taken has a live holder.
        drop(Lock::attempt(home, &id));
    }
}

/// A lock that is held.
#[derive(Debug)]
pub struct Lock {
    path: PathBuf,
    /// Closed on exec, so that no command inherits the lock.
    _file: File,
}

impl Work for Lock {}

impl Lock {
    /// Takes the lock; waits for as long as its holder runs. Fails if the holder is stopped, or the call cancelled.
    pub fn wait(home: &Home, id: &SandboxId, cancel: &Cancel) -> Result<Self> {
        let (mut pause, mut patience) = (PAUSE, PATIENCE);
        loop {
            let file = match Self::try_take(home, id)? {
                Ok(lock) => return Ok(lock),
                Err(file) => file,
            };
            if patience.is_zero() {
                if let Some(process) = holder::stopped(&file) {
                    return Err(stopped(id, process));
                }
                patience = PATIENCE;
            }
            if cancel.sleep(pause) {
                return Err(cancel.reason());
            }
            patience = patience.saturating_sub(pause);
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    /// Takes the lock if it is free.
    pub fn attempt(home: &Home, id: &SandboxId) -> Result<Option<Self>> {
        Self::try_take(home, id).map(Result::ok)
    }

    /// Takes the lock, or returns the file that another process has locked.
    fn try_take(home: &Home, id: &SandboxId) -> Result<Result<Self, File>> {
        let path = path(home, id);
        loop {
            let file = open(home, &path)?;
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Ok(Err(file)),
                Err(TryLockError::Error(error)) => return Err(home::unusable(&path, "lock", error)),
            }
            if let Some(lock) = Self::confirm(file, &path)? {
                return Ok(Ok(lock));
            }
        }
    }

    /// Checks the file again: the previous holder may have removed it between our open and our lock, and others would
    /// lock a new one.
    fn confirm(file: File, path: &Path) -> Result<Option<Self>> {
        let inspect = |error| home::unusable(path, "inspect", error);
        let ours = file.metadata().map_err(inspect)?;
        match fs::symlink_metadata(path) {
            Ok(named) if (named.dev(), named.ino()) == (ours.dev(), ours.ino()) => {
                Ok(Some(Self { path: path.to_owned(), _file: file }))
            }
            Ok(_) => Ok(None),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(inspect(error)),
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Removed while still locked, so it can only be our own. If that fails, the next holder tries again.
        let _ = fs::remove_file(&self.path);
    }
}

fn stopped(id: &SandboxId, process: u32) -> Error {
    Error::new(Kind::Conflict, format!("process {process} works on sandbox `{id}` and was stopped"))
        .hint(format!("let it go on with `kill -CONT {process}`, or end it with `kill -KILL {process}`"))
        .detail("sandbox_id", id.as_str())
        .detail("process", process)
}

fn path(home: &Home, id: &SandboxId) -> PathBuf {
    home.locks().join(id.as_str())
}

fn open(home: &Home, path: &Path) -> Result<File> {
    let failed = |error| home::unusable(path, "open", error);
    match home::open_lock(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            home::make_private(&home.locks())?;
            home::open_lock(path).map_err(failed)
        }
        other => other.map_err(failed),
    }
}
