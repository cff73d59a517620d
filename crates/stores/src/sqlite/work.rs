//! The right to make or destroy one sandbox: a lock on a file named after it.
//!
//! The kernel lets go of it when its holder dies, however it dies. The file is removed by each holder, so a home
//! collects none; whoever waited on a removed file finds that out and starts over.

use std::fs::{self, File, TryLockError};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use coracle_core::error::{Error, Kind, Result};
use coracle_core::home::Home;
use coracle_core::ids::SandboxId;
use coracle_core::store::Work;

use super::{holder, home};

/// Between two tries to take a lock: short for the many who are done in milliseconds.
const PAUSE: Duration = Duration::from_millis(1);
const PAUSE_MAX: Duration = Duration::from_millis(25);
/// How long one waits between two looks whether the holder was stopped.
const PATIENCE: Duration = Duration::from_secs(5);

/// Removes the files that holders who died left behind.
pub fn sweep(home: &Home) {
    let entries = fs::read_dir(home.locks()).into_iter().flatten().flatten();
    for id in entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()) {
        // Letting go of a lock removes its file. One that cannot be taken is somebody's.
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
    /// Takes the lock, waiting for as long as its holder works. One that was stopped is not waited for.
    pub fn wait(home: &Home, id: &SandboxId) -> Result<Self> {
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
            std::thread::sleep(pause);
            patience = patience.saturating_sub(pause);
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    /// Takes the lock if nobody has it.
    pub fn attempt(home: &Home, id: &SandboxId) -> Result<Option<Self>> {
        Self::try_take(home, id).map(Result::ok)
    }

    /// Takes the lock, or returns the file somebody else has locked.
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

    /// The holder before may have removed the file between our open and our lock. Then others lock a new one.
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
        // While still locked, so it can only be our own. If it fails, the next holder tries again.
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
