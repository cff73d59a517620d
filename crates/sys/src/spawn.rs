//! Starting a process from a small, single-threaded one, into a cgroup, as a child of this one's parent.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::atomic::{AtomicU64, Ordering};

/// libc has this constant in a type it does not fit.
pub(crate) const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;

/// Whose child the new process is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Parent {
    Caller,
    /// The caller's own parent, which then is the one to reap it.
    Callers,
}

/// A word both sides of a fork see, for the child to say why it could not go on.
#[derive(Debug)]
pub struct Slate(&'static AtomicU64);

impl Slate {
    /// Maps a page that stays shared with children.
    pub fn new() -> io::Result<Self> {
        // SAFETY: asks for a new anonymous mapping at an address of the kernel's choice.
        let page = unsafe {
            libc::mmap(std::ptr::null_mut(), size_of::<AtomicU64>(), libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_ANONYMOUS, -1, 0)
        };
        if page == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the mapping is page-aligned, zeroed, large enough, never unmapped, and only ever read as an atomic.
        Ok(Self(unsafe { &*page.cast::<AtomicU64>() }))
    }

    fn write(&self, value: u64) {
        self.0.store(value, Ordering::SeqCst);
    }

    fn read(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }
}

/// Why a child did not come as far as its program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Failed {
    /// A number of the caller's choosing.
    pub stage: u8,
    pub errno: i32,
}

/// Starts a child that runs `child`, in `cgroup` if one is given, and returns its pid once it runs its program.
///
/// `child` returns only if it failed. The caller must be single-threaded: the child is a copy of this process, and a
/// lock another thread held at that moment would stay locked in it.
pub fn spawn(slate: &Slate, cgroup: Option<BorrowedFd<'_>>, parent: Parent, child: impl FnOnce() -> Failed) -> Result<i32, Failed> {
    let mut arguments = libc::clone_args {
        // With CLONE_VFORK we sleep until the child has executed its program or given up: no pipe needed to find out.
        flags: libc::CLONE_VFORK as u64,
        ..zeroed_arguments()
    };
    match parent {
        // With CLONE_PARENT the new process ends with the signal its sibling, this process, was started with.
        Parent::Callers => arguments.flags |= libc::CLONE_PARENT as u64,
        Parent::Caller => arguments.exit_signal = libc::SIGCHLD as u64,
    }
    if let Some(cgroup) = cgroup {
        arguments.flags |= CLONE_INTO_CGROUP;
        arguments.cgroup = cgroup.as_raw_fd() as u64;
    }
    slate.write(0);
    match clone3(&arguments) {
        Err(error) => Err(Failed { stage: 0, errno: error.raw_os_error().unwrap_or(libc::EIO) }),
        Ok(0) => {
            let failed = child();
            slate.write(1 << 63 | u64::from(failed.stage) << 32 | failed.errno as u32 as u64);
            exit(127)
        }
        Ok(pid) => match slate.read() {
            0 => Ok(pid),
            said => Err(Failed { stage: (said >> 32) as u8, errno: said as u32 as i32 }),
        },
    }
}

/// Starts a child that goes on as a copy of this process in `cgroup`; `child` returning ends it.
pub fn fork_into(cgroup: BorrowedFd<'_>, child: impl FnOnce()) -> io::Result<i32> {
    let arguments = libc::clone_args {
        flags: CLONE_INTO_CGROUP,
        exit_signal: libc::SIGCHLD as u64,
        cgroup: cgroup.as_raw_fd() as u64,
        ..zeroed_arguments()
    };
    match clone3(&arguments)? {
        0 => {
            child();
            exit(0)
        }
        pid => Ok(pid),
    }
}

/// Ends this process at once, running nothing on the way.
pub fn exit(code: i32) -> ! {
    // SAFETY: ends the process; nothing after it can observe anything.
    unsafe { libc::_exit(code) }
}

/// Executes a program by path. Returns only on failure.
pub fn execute(path: &std::ffi::CStr, argv: &[*const libc::c_char], envp: &[*const libc::c_char]) -> io::Error {
    if argv.last().is_none_or(|last| !last.is_null()) || envp.last().is_none_or(|last| !last.is_null()) {
        return io::ErrorKind::InvalidInput.into();
    }
    // SAFETY: both arrays end in a null pointer, checked above, and by contract of `pointers` hold pointers to
    // terminated strings that outlive the call.
    unsafe { libc::execve(path.as_ptr(), argv.as_ptr(), envp.as_ptr()) };
    io::Error::last_os_error()
}

/// Returns the array `execve` wants: a pointer to each string, then a null.
pub fn pointers(strings: &[std::ffi::CString]) -> Vec<*const libc::c_char> {
    strings.iter().map(|string| string.as_ptr()).chain(std::iter::once(std::ptr::null())).collect()
}

/// Closes every descriptor from `first` on.
pub fn close_from(first: u32) -> io::Result<()> {
    // SAFETY: takes numbers. Descriptors owned by Rust values are closed under them; callers do this only right
    // before executing a program or exiting.
    let result = unsafe { libc::syscall(libc::SYS_close_range, first, u32::MAX, 0) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Makes `source` the descriptor `number` as well, open across execution.
pub fn place(source: BorrowedFd<'_>, number: i32) -> io::Result<()> {
    // SAFETY: takes numbers; whatever `number` was before is closed, which callers intend for 0, 1 and 2.
    match unsafe { libc::dup2(source.as_raw_fd(), number) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

pub(crate) fn zeroed_arguments() -> libc::clone_args {
    // SAFETY: `clone_args` is a structure of integers; all zeroes asks for nothing.
    unsafe { std::mem::zeroed() }
}

/// The raw call, without a new stack: the child goes on where this returns 0, on a copy of this process's memory.
pub(crate) fn clone3(arguments: &libc::clone_args) -> io::Result<i32> {
    // SAFETY: `arguments` is a live `clone_args` of its stated size. CLONE_VM is never set by this crate, so the child
    // has its own copy of the memory and returning twice is returning once in each process.
    let pid = unsafe { libc::syscall(libc::SYS_clone3, std::ptr::from_ref(arguments), size_of::<libc::clone_args>()) };
    if pid < 0 { Err(io::Error::last_os_error()) } else { Ok(pid as i32) }
}
