//! Signals as descriptors, and signals to processes.

use std::io;
use std::os::fd::{FromRawFd, OwnedFd};

fn child_set() -> libc::sigset_t {
    // SAFETY: a zeroed `sigset_t` is a valid place for `sigemptyset` to write to.
    let mut set = unsafe { std::mem::zeroed() };
    // SAFETY: `set` is a live, exclusive `sigset_t`.
    unsafe { libc::sigemptyset(&raw mut set) };
    // SAFETY: `set` was initialised above, and the signal number is valid.
    unsafe { libc::sigaddset(&raw mut set, libc::SIGCHLD) };
    set
}

/// Blocks SIGCHLD in this thread and those it starts, and returns a descriptor that becomes readable instead.
pub fn child_descriptor() -> io::Result<OwnedFd> {
    let set = child_set();
    // SAFETY: `set` is initialised; the old mask is not asked for.
    if unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: `set` is initialised; -1 asks for a new descriptor.
    let descriptor = unsafe { libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) };
    if descriptor < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just returned this descriptor, which has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

/// Unblocks every signal and resets each to its default, as a command expects.
pub fn reset() {
    // Asks the kernel directly: the C library reserves two signals for itself, leaves them ignored in all that its
    // `posix_spawn` starts, and refuses to change them. All zeroes are the default, whatever the order of the
    // fields.
    let default = [0u64; 4];
    for signal in 1..=64 {
        // SAFETY: `default` is live and no shorter than the kernel's `sigaction` anywhere; the old disposition is not
        // asked for; the last number is the size of the kernel's set. The two that cannot be set just fail.
        unsafe { libc::syscall(libc::SYS_rt_sigaction, signal, default.as_ptr(), 0usize, 8usize) };
    }
    // SAFETY: a zeroed `sigset_t` is a valid place for `sigemptyset` to write to.
    let mut set: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: `set` is live and exclusive.
    unsafe { libc::sigemptyset(&raw mut set) };
    // SAFETY: `set` is initialised; the old mask is not asked for.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const set, std::ptr::null_mut()) };
}

/// Sends a signal to one process.
pub fn send(pid: i32, signal: i32) -> io::Result<()> {
    kill(pid, signal)
}

/// Sends a signal to a process group.
pub fn send_to_group(group: i32, signal: i32) -> io::Result<()> {
    kill(-group, signal)
}

fn kill(target: i32, signal: i32) -> io::Result<()> {
    // SAFETY: takes two numbers.
    if unsafe { libc::kill(target, signal) } == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// A child that has ended: its pid, and its exit code or the signal that ended it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ended {
    pub pid: i32,
    pub exit: Result<i32, i32>,
}

/// Reaps one ended child, if there is one.
pub fn reap() -> Option<Ended> {
    wait_for_any(libc::WNOHANG)
}

/// Waits for a child to end and reaps it; `None` if there is no child.
pub fn wait() -> Option<Ended> {
    loop {
        match wait_for_any(0) {
            None if io::Error::last_os_error().kind() == io::ErrorKind::Interrupted => {}
            ended => return ended,
        }
    }
}

fn wait_for_any(flags: i32) -> Option<Ended> {
    let mut status = 0;
    // SAFETY: `status` is a live, exclusive integer the kernel writes to.
    let pid = unsafe { libc::waitpid(-1, &raw mut status, flags) };
    if pid <= 0 {
        return None;
    }
    let exit =
        if libc::WIFEXITED(status) { Ok(libc::WEXITSTATUS(status)) } else { Err(libc::WTERMSIG(status)) };
    Some(Ended { pid, exit })
}

/// Reaps one ended child by its descriptor, if it is ours.
pub fn reap_descriptor(pidfd: &OwnedFd) {
    use std::os::fd::AsFd;
    let id = rustix::process::WaitId::PidFd(pidfd.as_fd());
    let _ = rustix::process::waitid(
        id,
        rustix::process::WaitIdOptions::EXITED | rustix::process::WaitIdOptions::NOHANG,
    );
}
