//! User namespaces without processes: they only define the ids with which a mount shows its files.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;

use crate::spawn::{clone3, exit, zeroed_arguments};

/// A range of ids: `count` ids from `inside` on stand for as many from `outside` on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Range {
    pub inside: u32,
    pub outside: u32,
    pub count: u32,
}

/// Makes a namespace with these id maps. No id may be in two ranges, on either side.
pub fn namespace(users: &[Range], groups: &[Range]) -> io::Result<OwnedFd> {
    let (ours, theirs) = UnixStream::pair()?;
    let arguments = libc::clone_args {
        flags: libc::CLONE_NEWUSER as u64,
        exit_signal: libc::SIGCHLD as u64,
        ..zeroed_arguments()
    };
    let pid = match clone3(&arguments)? {
        0 => linger(&ours, &theirs),
        pid => pid,
    };
    drop(theirs);
    let made = map(pid, users, groups);
    // The child's end of the socket closes with ours, and the child ends.
    drop(ours);
    let mut status = 0;
    // SAFETY: `status` is a live, exclusive integer; the child is ours and no other code waits for it.
    unsafe { libc::waitpid(pid, &raw mut status, 0) };
    made
}

/// Writes the maps of a process in a new namespace and returns that namespace.
fn map(pid: i32, users: &[Range], groups: &[Range]) -> io::Result<OwnedFd> {
    let line = |range: &Range| format!("{} {} {}\n", range.inside, range.outside, range.count);
    let lines = |ranges: &[Range]| ranges.iter().map(line).collect::<String>();
    fs::write(format!("/proc/{pid}/uid_map"), lines(users))?;
    fs::write(format!("/proc/{pid}/gid_map"), lines(groups))?;
    File::open(format!("/proc/{pid}/ns/user")).map(OwnedFd::from)
}

/// Runs in the child, which keeps the namespace alive until its parent has a descriptor of it or is dead. Allocates
/// nothing.
fn linger(ours: &UnixStream, theirs: &UnixStream) -> ! {
    // SAFETY: takes a number; the descriptor's owner is in the other process.
    unsafe { libc::close(ours.as_raw_fd()) };
    let mut theirs = theirs;
    let _ = theirs.read(&mut [0]);
    exit(0)
}
