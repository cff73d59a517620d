//! Descriptors a process was started with.

use std::io;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::sync::Mutex;

/// The numbers taken so far: a descriptor may have only one owner.
static TAKEN: Mutex<Vec<RawFd>> = Mutex::new(Vec::new());

/// Takes a descriptor that the parent process has left open at this number. Processes that this one starts do not
/// inherit it. Fails if it is not open, or was taken before.
///
/// The caller must know that the number was announced, as by `LISTEN_FDS`, and has no other owner in this process.
pub fn take(number: RawFd) -> io::Result<OwnedFd> {
    let mut taken = TAKEN.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    if number < 3 || taken.contains(&number) {
        return Err(io::Error::from_raw_os_error(libc::EBADF));
    }
    // SAFETY: sets a flag on the descriptor at this number and keeps nothing of it; without a descriptor the call
    // fails.
    let flagged = unsafe { libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) };
    if flagged < 0 {
        return Err(io::Error::last_os_error());
    }
    taken.push(number);
    // SAFETY: the descriptor is open, as the call above has shown, and this is its only owner: it was announced to
    // this process, and the list above hands each number out once.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}
