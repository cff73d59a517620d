//! The directory of one keeper, as other processes see it: whether a keeper lives, what it holds, how to end it.
//!
//! A keeper is alive while the lock in its directory is held. The kernel releases it however the keeper dies.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::time::{Duration, Instant};

use coracle_core::Network;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::control;

const LOCK: &str = "lock";
/// A keeper ends in milliseconds; on a machine that swaps it takes seconds.
const PATIENCE: Duration = Duration::from_secs(10);
/// Between looks at a keeper that is ending.
const PAUSE: Duration = Duration::from_millis(2);

/// Makes a directory no other user may enter. Succeeds if it exists.
pub fn make(directory: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(directory) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}

/// Has the keeper narrow its network to at most this one. Returns `false` if it cannot, and an error if there is no
/// keeper.
pub fn hold(directory: &Path, network: &Network) -> io::Result<bool> {
    control::hold(directory, network)
}

/// Tells whether a keeper is alive.
pub fn is_kept(directory: &Path) -> io::Result<bool> {
    match open_lock(directory)?.try_lock() {
        Ok(()) => Ok(false),
        Err(fs::TryLockError::WouldBlock) => Ok(true),
        Err(fs::TryLockError::Error(error)) => Err(error),
    }
}

/// Asks the keeper to end and waits until it has. Kills one that does not.
pub fn end(directory: &Path) -> io::Result<()> {
    if !directory.exists() {
        return Ok(());
    }
    let _ = control::end(directory);
    let deadline = Instant::now() + PATIENCE;
    let mut killed = false;
    while is_kept(directory)? {
        if Instant::now() > deadline {
            if killed {
                return Err(io::ErrorKind::TimedOut.into());
            }
            kill(directory)?;
            killed = true;
        }
        std::thread::sleep(PAUSE);
    }
    Ok(())
}

/// Returns a handle of the process that holds the lock. The kernel reuses pids, so this reads the pid once more
/// after it has the handle: while the lock is held and names the same pid, the handle is the holder's.
pub fn holder(directory: &Path) -> io::Result<Option<OwnedFd>> {
    let written = || keeper_in(directory);
    let Some(pid) = written().and_then(Pid::from_raw) else { return Ok(None) };
    let Ok(handle) = pidfd_open(pid, PidfdFlags::empty()) else { return Ok(None) };
    let is_its = is_kept(directory)? && written() == Some(pid.as_raw_nonzero().get());
    Ok(is_its.then_some(handle))
}

/// Opens the file whose lock a keeper holds.
pub(crate) fn open_lock(directory: &Path) -> io::Result<File> {
    File::options().read(true).write(true).create(true).truncate(false).open(directory.join(LOCK))
}

/// Returns the pid of the process that holds the lock, or held it last; `None` if the keeper is a thread.
fn keeper_in(directory: &Path) -> Option<i32> {
    fs::read_to_string(directory.join(LOCK)).ok()?.parse().ok().filter(|pid| *pid > 0)
}

/// Kills the process that holds the lock.
fn kill(directory: &Path) -> io::Result<()> {
    if let Some(handle) = holder(directory)? {
        let _ = pidfd_send_signal(&handle, Signal::KILL);
    }
    Ok(())
}
