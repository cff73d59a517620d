//! Starting the guest's program once more, inside the user and mount namespaces of a sandbox that is there.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use crate::launch::{BOOT_DESCRIPTOR, Launched, execute};
use crate::spawn::{born_in, clone3, exit};

/// What the program is called then, by which it knows what it is for.
pub const NAME: &str = "restack";
const NAME_TERMINATED: &CStr = c"restack";

/// What it is started with.
#[derive(Debug)]
pub struct Enter<'a> {
    /// The guest's program, executed by descriptor.
    pub program: BorrowedFd<'a>,
    /// Its end of a socket to the host.
    pub socket: BorrowedFd<'a>,
    /// Stays open until it ends: whoever is at the other end sees that it has.
    pub held: BorrowedFd<'a>,
    /// `/dev/null`, for its standard streams.
    pub null: BorrowedFd<'a>,
    /// The process whose namespaces it enters, as a pidfd.
    pub process: BorrowedFd<'a>,
    /// The directory of the v2 cgroup it is born in, if any.
    pub cgroup: Option<BorrowedFd<'a>>,
}

/// Where the program finds what holds the sandbox.
pub const HELD: i32 = 5;
/// Where the others are while it waits to be executed.
const PROGRAM: i32 = 4;
const PROCESS: i32 = 6;

/// Starts it.
pub fn enter(order: &Enter<'_>) -> io::Result<Launched> {
    let mut pidfd: i32 = -1;
    let mut arguments = libc::clone_args {
        exit_signal: libc::SIGCHLD as u64,
        pidfd: std::ptr::from_mut(&mut pidfd) as u64,
        ..born_in(order.cgroup)
    };
    arguments.flags |= libc::CLONE_PIDFD as u64;
    match clone3(&arguments)? {
        0 => child(order),
        // SAFETY: with CLONE_PIDFD the kernel stored a new descriptor there that nobody else owns.
        pid => Ok(Launched { pid, pidfd: unsafe { OwnedFd::from_raw_fd(pidfd) } }),
    }
}

/// Runs in the new process. The host may have had other threads when it was copied, so nothing here allocates, locks
/// or panics; every failure leaves by `exit`, which the host sees as the socket closing.
fn child(order: &Enter<'_>) -> ! {
    keep_only(order);
    // SAFETY: takes numbers. The process has one thread and shares nothing, as entering these takes.
    if unsafe { libc::setns(PROCESS, libc::CLONE_NEWUSER | libc::CLONE_NEWNS) } != 0 {
        exit(1);
    }
    if crate::identity::become_user(0, 0, &[]).is_err() {
        exit(2);
    }
    // SAFETY: takes nothing. A terminal's signals are for the host alone.
    unsafe { libc::setsid() };
    execute(PROGRAM, NAME_TERMINATED)
}

/// Puts the descriptors it needs in their places and closes all others.
fn keep_only(order: &Enter<'_>) {
    let sources = [
        (order.null.as_raw_fd(), 0),
        (order.null.as_raw_fd(), 1),
        (order.null.as_raw_fd(), 2),
        (order.socket.as_raw_fd(), BOOT_DESCRIPTOR),
        (order.program.as_raw_fd(), PROGRAM),
        (order.held.as_raw_fd(), HELD),
        (order.process.as_raw_fd(), PROCESS),
    ];
    // First all of them out of the way of the places, where others may be.
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
    unsafe { libc::syscall(libc::SYS_close_range, PROCESS + 1, u32::MAX, 0) };
    for passing in [PROGRAM, PROCESS] {
        // SAFETY: takes numbers. Neither is open in the program.
        unsafe { libc::fcntl(passing, libc::F_SETFD, libc::FD_CLOEXEC) };
    }
}
