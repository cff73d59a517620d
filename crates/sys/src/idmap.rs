//! User namespaces that nobody lives in: they only say with which ids the files of a mount are shown.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;

use crate::spawn::{clone3, exit, zeroed_arguments};

/// A run of ids: `count` of them from `inside` on stand for as many from `outside` on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Range {
    pub inside: u32,
    pub outside: u32,
    pub count: u32,
}

/// Makes a namespace in which these ids are mapped. No id may be in two ranges, on either side.
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
    // Its end of the socket closes with ours, and it ends.
    drop(ours);
    let mut status = 0;
    // SAFETY: `status` is a live, exclusive integer; the child is ours and nobody else waits for it.
    unsafe { libc::waitpid(pid, &raw mut status, 0) };
    made
}

/// Writes the maps of a process in a new namespace and returns that.
fn map(pid: i32, users: &[Range], groups: &[Range]) -> io::Result<OwnedFd> {
    let line = |range: &Range| format!("{} {} {}\n", range.inside, range.outside, range.count);
    let lines = |ranges: &[Range]| ranges.iter().map(line).collect::<String>();
    fs::write(format!("/proc/{pid}/uid_map"), lines(users))?;
    fs::write(format!("/proc/{pid}/gid_map"), lines(groups))?;
    File::open(format!("/proc/{pid}/ns/user")).map(OwnedFd::from)
}

/// Runs in the child, which keeps the namespace there until its maker has it or is dead. Nothing here allocates.
fn linger(ours: &UnixStream, theirs: &UnixStream) -> ! {
    // SAFETY: takes a number; the descriptor's owner is in the other process.
    unsafe { libc::close(ours.as_raw_fd()) };
    let mut theirs = theirs;
    let _ = theirs.read(&mut [0]);
    exit(0)
}
