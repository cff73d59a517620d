//! Ties a program to the thread that starts it.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::process::{Signal, getpid, getppid, set_parent_process_death_signal};

/// Has the kernel kill the program when the thread that starts it ends, however it ends. Does not cover processes
/// that the program starts itself.
pub fn to_this_thread(command: &mut Command) -> &mut Command {
    let parent = getpid();
    let tie = move || {
        set_parent_process_death_signal(Some(Signal::KILL))?;
        // If the parent died before the call above, the kernel will send no signal.
        match getppid() == Some(parent) {
            true => Ok(()),
            false => Err(io::ErrorKind::BrokenPipe.into()),
        }
    };
    // SAFETY: the closure runs between fork and exec. It makes two system calls, allocates nothing and takes no lock:
    // the error it may return is a plain number.
    unsafe { command.pre_exec(tie) }
}
