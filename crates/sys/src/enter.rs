//! Starts the guest's program a second time, inside the user and mount namespaces of a live sandbox.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use crate::launch::{BOOT_DESCRIPTOR, Launched, execute};
use crate::spawn::{born_in, clone3, exit};

/// The program's name then, which tells it what to do.
pub const NAME: &str = "restack";
const NAME_TERMINATED: &CStr = c"restack";

/// What the program is started with.
#[derive(Debug)]
pub struct Enter<'a> {
    /// The guest's program, executed by descriptor.
    pub program: BorrowedFd<'a>,
    /// Its end of a socket to the host.
    pub socket: BorrowedFd<'a>,
    /// Stays open until the program ends: the other end sees it close.
    pub held: BorrowedFd<'a>,
    /// `/dev/null`, for its standard streams.
    pub null: BorrowedFd<'a>,
    /// The process whose namespaces it enters, as a pidfd.
    pub process: BorrowedFd<'a>,
    /// The directory of the v2 cgroup it is born in, if any.
    pub cgroup: Option<BorrowedFd<'a>>,
}

/// The number at which the program finds the connection that holds the sandbox.
pub const HELD: i32 = 5;
/// The numbers of the other descriptors until the program is executed.
const PROGRAM: i32 = 4;
const PROCESS: i32 = 6;

/// Starts the program in the sandbox's namespaces.
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
        // SAFETY: with CLONE_PIDFD the kernel stored a new descriptor there, which has no other owner.
        pid => Ok(Launched { pid, pidfd: unsafe { OwnedFd::from_raw_fd(pidfd) } }),
    }
}

/// Runs in the new process. The host may have had other threads when it was copied, so nothing here allocates,
/// locks or panics. Every failure leaves by `exit`, and the host sees the socket close.
fn child(order: &Enter<'_>) -> ! {
    keep_only(order);
    // SAFETY: takes numbers. The kernel lets only a process with one thread and nothing shared enter; this is one.
    if unsafe { libc::setns(PROCESS, libc::CLONE_NEWUSER | libc::CLONE_NEWNS) } != 0 {
        exit(1);
    }
    if crate::identity::become_user(0, 0, &[]).is_err() {
        exit(2);
    }
    // SAFETY: takes nothing. Terminal signals are for the host alone.
    unsafe { libc::setsid() };
    execute(PROGRAM, NAME_TERMINATED)
}

/// Moves the descriptors the program needs to their numbers and closes all others.
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
    unsafe { libc::syscall(libc::SYS_close_range, PROCESS + 1, u32::MAX, 0) };
    for passing in [PROGRAM, PROCESS] {
        // SAFETY: takes numbers. The program must have neither of them open.
        unsafe { libc::fcntl(passing, libc::F_SETFD, libc::FD_CLOEXEC) };
    }
}
