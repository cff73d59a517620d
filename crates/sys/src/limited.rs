//! What a program of the machine is started with beyond what the standard library knows: limits, and a descriptor it keeps.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::process::{Resource, Rlimit, setrlimit};

/// Has the command live within these limits, and keep this descriptor open to its end: a lock it holds lasts as long as the
/// program, even if its parent dies before.
pub fn prepare(command: &mut Command, kept: OwnedFd, limits: Vec<(Resource, u64)>) {
    let enter = move || {
        for (resource, most) in &limits {
            setrlimit(*resource, Rlimit { current: Some(*most), maximum: Some(*most) })?;
        }
        // SAFETY: takes numbers. The closure owns the descriptor, which is open.
        match unsafe { libc::fcntl(kept.as_raw_fd(), libc::F_SETFD, 0) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    };
    // SAFETY: between fork and exec the closure makes system calls and nothing else: no allocation, no lock, no panic.
    unsafe { command.pre_exec(enter) };
}
