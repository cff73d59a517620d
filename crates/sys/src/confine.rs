//! Starts a small helper from the host, in its own namespaces and with one socket, to work on untrusted data.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use crate::launch::{BOOT_DESCRIPTOR, Launched, execute};
use crate::spawn::{clone3, exit, zeroed_arguments};

/// What a helper is started with.
#[derive(Debug)]
pub struct Confined<'a> {
    /// Its program, executed by descriptor.
    pub program: BorrowedFd<'a>,
    /// Its end of the socket. The host sends one byte once it has mapped the helper's ids; the helper waits for it.
    pub socket: BorrowedFd<'a>,
    /// `/dev/null`, for its standard streams.
    pub null: BorrowedFd<'a>,
    /// The name it is started by.
    pub name: &'a CStr,
}

/// Starts the helper. It waits for a byte on its socket. The kernel kills it when the calling thread ends.
pub fn confine(confined: &Confined<'_>) -> io::Result<Launched> {
    let mut pidfd: i32 = -1;
    let namespaces = libc::CLONE_NEWUSER
        | libc::CLONE_NEWNS
        | libc::CLONE_NEWPID
        | libc::CLONE_NEWIPC
        | libc::CLONE_NEWUTS
        | libc::CLONE_NEWNET
        | libc::CLONE_NEWCGROUP;
    let arguments = libc::clone_args {
        flags: namespaces as u64 | libc::CLONE_PIDFD as u64,
        exit_signal: libc::SIGCHLD as u64,
        pidfd: std::ptr::from_mut(&mut pidfd) as u64,
        ..zeroed_arguments()
    };
    match clone3(&arguments)? {
        0 => child(confined),
        // SAFETY: with CLONE_PIDFD the kernel stored a new descriptor there, which has no other owner.
        pid => Ok(Launched { pid, pidfd: unsafe { OwnedFd::from_raw_fd(pidfd) } }),
    }
}

/// Where the program is while it waits to be executed.
const PROGRAM_DESCRIPTOR: i32 = 4;

/// Runs in the new process. The host may have had other threads when it was copied, so nothing here allocates,
/// locks or panics. Every failure leaves by `exit`, and the host sees the socket close.
fn child(confined: &Confined<'_>) -> ! {
    // Before any wait: the helper has a copy of everything the host has open. Copies of locks would outlive the
    // host, and with copies of their sockets other helpers would not learn that the host is gone.
    keep_only(confined);
    let mut go = 0u8;
    // SAFETY: `go` is a live byte the kernel writes to.
    if unsafe { libc::read(BOOT_DESCRIPTOR, (&raw mut go).cast(), 1) } != 1 {
        exit(1);
    }
    become_root();
    // After the change of ids, which resets it. If the host died before, the next read of the socket shows it.
    // SAFETY: takes numbers.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL, 0, 0, 0) };
    // SAFETY: takes nothing. Terminal signals are for the host alone.
    unsafe { libc::setsid() };
    execute(PROGRAM_DESCRIPTOR, confined.name)
}

/// Moves the descriptors the helper needs to their numbers and closes all others.
fn keep_only(confined: &Confined<'_>) {
    let sources = [
        (confined.null.as_raw_fd(), 0),
        (confined.null.as_raw_fd(), 1),
        (confined.null.as_raw_fd(), 2),
        (confined.socket.as_raw_fd(), BOOT_DESCRIPTOR),
        (confined.program.as_raw_fd(), PROGRAM_DESCRIPTOR),
    ];
    // First move all of them away from these numbers, which other descriptors may have.
    let moved = sources.map(|(source, place)| {
        // SAFETY: takes numbers.
        (unsafe { libc::fcntl(source, libc::F_DUPFD, 100) }, place)
    });
    for (source, place) in moved {
        // SAFETY: takes numbers.
        if unsafe { libc::dup2(source, place) } < 0 {
            exit(3);
        }
    }
    // SAFETY: takes numbers; their owners are in the other process.
    unsafe { libc::syscall(libc::SYS_close_range, PROGRAM_DESCRIPTOR + 1, u32::MAX, 0) };
    // SAFETY: takes numbers. The helper must not have its own program open.
    unsafe { libc::fcntl(PROGRAM_DESCRIPTOR, libc::F_SETFD, libc::FD_CLOEXEC) };
}

/// Becomes root of the new namespace. An ordinary user's helper keeps its groups, which mean nothing in its cage:
/// the kernel refuses to drop groups, because a group can serve to deny access.
fn become_root() {
    // SAFETY: no groups are read where their number is 0.
    unsafe { libc::syscall(libc::SYS_setgroups, 0, std::ptr::null::<u32>()) };
    // SAFETY: takes three numbers.
    let group = unsafe { libc::syscall(libc::SYS_setresgid, 0, 0, 0) };
    // SAFETY: takes three numbers.
    let user = unsafe { libc::syscall(libc::SYS_setresuid, 0, 0, 0) };
    if group != 0 || user != 0 {
        exit(2);
    }
}
