//! Starts the guest from the host: new namespaces, the right cgroups, an unprivileged identity, then the program.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use crate::spawn::{born_in, clone3, exit};

/// The number at which the guest finds its boot socket.
pub const BOOT_DESCRIPTOR: i32 = 3;

/// How often to retry on ETXTBSY, a millisecond each. Another thread of the host may just have written the program,
/// and a process forked meanwhile has it open for writing until it executes its own program.
const TEXT_BUSY_TRIES: u32 = 1000;

const NAMESPACES: i32 = libc::CLONE_NEWUSER
    | libc::CLONE_NEWNS
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWNET
    | libc::CLONE_NEWCGROUP;

/// What a guest is started with.
#[derive(Debug)]
pub struct Launch<'a> {
    /// The guest's program, executed by descriptor.
    pub program: BorrowedFd<'a>,
    /// The guest's end of the boot socket. The host sends one byte once it has mapped the guest's ids; the guest
    /// waits for it.
    pub boot: BorrowedFd<'a>,
    /// The host's end. The new process has a copy of it until it closes that.
    pub boot_peer: BorrowedFd<'a>,
    /// `/dev/null`, for its standard streams.
    pub null: BorrowedFd<'a>,
    /// The directory of the v2 cgroup it is born in, if any.
    pub cgroup: Option<BorrowedFd<'a>>,
    /// `tasks` files of v1 cgroups it joins before it runs.
    pub joins: &'a [BorrowedFd<'a>],
    /// The user namespace has only one user, and the guest already is that user.
    pub single_user: bool,
    /// Namespaces the guest shares with the machine, as flags of `clone`. Only attack tests set any.
    pub shared: i32,
    /// Whether the guest inherits open descriptors. Only attack tests set it.
    pub inherits: bool,
}

/// A guest that was launched.
#[derive(Debug)]
pub struct Launched {
    pub pid: i32,
    pub pidfd: OwnedFd,
}

/// Launches the guest in its own namespaces. It waits for a byte on its boot socket.
pub fn launch(launch: &Launch<'_>) -> io::Result<Launched> {
    let mut pidfd: i32 = -1;
    let mut arguments = libc::clone_args {
        exit_signal: libc::SIGCHLD as u64,
        pidfd: std::ptr::from_mut(&mut pidfd) as u64,
        ..born_in(launch.cgroup)
    };
    arguments.flags |= (NAMESPACES & !launch.shared) as u64 | libc::CLONE_PIDFD as u64;
    match clone3(&arguments)? {
        0 => child(launch),
        // SAFETY: with CLONE_PIDFD the kernel stored a new descriptor there, which has no other owner.
        pid => Ok(Launched { pid, pidfd: unsafe { OwnedFd::from_raw_fd(pidfd) } }),
    }
}

/// Makes the namespaces a guest gets, and drops them at once: only trying shows whether the kernel allows it.
pub fn try_namespaces() -> io::Result<()> {
    let arguments =
        libc::clone_args { flags: NAMESPACES as u64, exit_signal: libc::SIGCHLD as u64, ..born_in(None) };
    match clone3(&arguments)? {
        0 => exit(0),
        pid => {
            // SAFETY: the child is ours and no other code waits for it; its status is not asked for.
            unsafe { libc::waitpid(pid, std::ptr::null_mut(), 0) };
            Ok(())
        }
    }
}

/// Runs in the new process. The host may have had other threads when it was copied, so nothing here allocates,
/// locks or panics. Every failure leaves by `exit`, and the host sees the boot socket close.
fn child(launch: &Launch<'_>) -> ! {
    let boot = launch.boot.as_raw_fd();
    // A launch that the host makes at the same time has a copy of the other end of our socket, as we have of its:
    // if the host dies, neither would see its own socket close.
    // SAFETY: takes numbers.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
    // Otherwise the wait below would not end when the host dies, and what the host held open would stay open.
    // SAFETY: takes a number; the descriptor's owner is in the other process.
    unsafe { libc::close(launch.boot_peer.as_raw_fd()) };
    let mut go = 0u8;
    // SAFETY: `go` is a live byte the kernel writes to.
    if unsafe { libc::read(boot, (&raw mut go).cast(), 1) } != 1 {
        exit(1);
    }
    // From here on the sandbox outlives the process that made it.
    // SAFETY: takes numbers.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, 0) };
    for join in launch.joins {
        // Joining by "0", and only through `tasks`, avoids a system-wide kernel lock that costs 10 ms.
        // SAFETY: the buffer is a literal of the stated length.
        if unsafe { libc::write(join.as_raw_fd(), b"0".as_ptr().cast(), 1) } != 1 {
            exit(2);
        }
    }
    if !launch.single_user && crate::identity::become_user(0, 0, &[]).is_err() {
        exit(3);
    }
    // SAFETY: takes nothing. The terminal of the process that made the sandbox must not reach it.
    unsafe { libc::setsid() };
    if !launch.inherits {
        // SAFETY: takes numbers.
        unsafe { libc::syscall(libc::SYS_close_range, 3, u32::MAX, libc::CLOSE_RANGE_CLOEXEC) };
    }
    // SAFETY: takes numbers. Moves the program away from the number the boot socket is about to get.
    let program = unsafe { libc::fcntl(launch.program.as_raw_fd(), libc::F_DUPFD_CLOEXEC, 100) };
    // SAFETY: as above.
    let boot = unsafe { libc::fcntl(boot, libc::F_DUPFD_CLOEXEC, 100) };
    for (source, number) in [
        (launch.null.as_raw_fd(), 0),
        (launch.null.as_raw_fd(), 1),
        (launch.null.as_raw_fd(), 2),
        (boot, BOOT_DESCRIPTOR),
    ] {
        // SAFETY: takes numbers. `null` is 3 or above or one of 0 to 2 itself; placing it on itself is harmless.
        if unsafe { libc::dup2(source, number) } < 0 {
            exit(4);
        }
    }
    execute(program, c"guest")
}

/// Executes a program by its descriptor, without an environment. Allocates nothing.
pub(crate) fn execute(program: i32, name: &CStr) -> ! {
    let argv = [name.as_ptr(), std::ptr::null()];
    let envp = [std::ptr::null::<libc::c_char>()];
    for _ in 0..TEXT_BUSY_TRIES {
        // SAFETY: the path is a terminated empty string, both arrays end in a null pointer, all of it outlives the
        // call.
        unsafe {
            libc::syscall(
                libc::SYS_execveat,
                program,
                c"".as_ptr(),
                argv.as_ptr(),
                envp.as_ptr(),
                libc::AT_EMPTY_PATH,
            )
        };
        if io::Error::last_os_error().raw_os_error() != Some(libc::ETXTBSY) {
            break;
        }
        // SAFETY: takes a number.
        unsafe { libc::usleep(1000) };
    }
    exit(5)
}

/// Returns the boot socket this process was launched with. The guest calls it once, first of all.
pub fn boot_socket() -> std::os::unix::net::UnixStream {
    // SAFETY: the launcher placed the socket at this number and nothing in this process has claimed it yet.
    let socket = unsafe { OwnedFd::from_raw_fd(BOOT_DESCRIPTOR) };
    // No command must inherit it.
    let _ = rustix::io::fcntl_setfd(&socket, rustix::io::FdFlags::CLOEXEC);
    socket.into()
}
