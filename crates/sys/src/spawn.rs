//! Starts a process from a small, single-threaded one, into a cgroup, as a child of this one's parent.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::atomic::{AtomicU64, Ordering};

/// libc defines this constant in a type it does not fit.
const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;

/// What children are started with: a stack of their own, and a word in which a child says why it failed.
///
/// Like with `vfork`, a child runs in this process's memory until it executes its program: copying the memory of
/// even a small process costs as much as the rest of the start.
#[derive(Debug)]
pub struct Nest {
    word: &'static AtomicU64,
    stack: *mut libc::c_void,
}

/// Enough for the few calls between fork and exec, above a page that faults.
const STACK: usize = 128 << 10;
const GUARD: usize = 64 << 10;

impl Nest {
    pub fn new() -> io::Result<Self> {
        let word = map(size_of::<AtomicU64>(), libc::MAP_SHARED)?;
        let stack = map(GUARD + STACK, libc::MAP_PRIVATE | libc::MAP_STACK)?;
        // SAFETY: the range is the lowest part of the mapping made above, which nothing uses.
        if unsafe { libc::mprotect(stack, GUARD, libc::PROT_NONE) } != 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the mapping is page-aligned, zeroed, large enough, never unmapped, and only ever read as an atomic.
        Ok(Self { word: unsafe { &*word.cast::<AtomicU64>() }, stack })
    }
}

fn map(length: usize, flags: i32) -> io::Result<*mut libc::c_void> {
    // SAFETY: asks for a new anonymous mapping at an address of the kernel's choice.
    let mapping = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            length,
            libc::PROT_READ | libc::PROT_WRITE,
            flags | libc::MAP_ANONYMOUS,
            -1,
            0,
        )
    };
    if mapping == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(mapping) }
}

/// Why a child failed before it ran its program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Failed {
    /// A number of the caller's choosing.
    pub stage: u8,
    pub errno: i32,
}

/// The parent of a new process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Parent {
    /// This process, which has to reap it.
    This,
    /// This process's own parent.
    Ours,
}

/// Starts a child that runs `child`, in `cgroup` if there is one, and returns its pid once it runs its program.
///
/// `child` returns only if it failed, and keeps nothing it allocates. The caller must be single-threaded: it sleeps
/// until the child has executed its program or given up, and no other thread may use the memory meanwhile.
pub fn spawn<F: FnOnce() -> Failed>(
    nest: &Nest,
    cgroup: Option<BorrowedFd<'_>>,
    parent: Parent,
    child: F,
) -> Result<i32, Failed> {
    let mut arguments = of(parent, born_in(cgroup));
    arguments.flags |= libc::CLONE_VFORK as u64;
    nest.word.store(0, Ordering::SeqCst);
    let mut task = Task { child: Some(child), word: nest.word };
    match start(arguments, nest, &mut task) {
        Err(error) => Err(Failed { stage: 0, errno: error.raw_os_error().unwrap_or(libc::EIO) }),
        Ok(pid) => match nest.word.load(Ordering::SeqCst) {
            0 => Ok(pid),
            said => Err(Failed { stage: (said >> 32) as u8, errno: said as u32 as i32 }),
        },
    }
}

fn of(parent: Parent, mut arguments: libc::clone_args) -> libc::clone_args {
    match parent {
        Parent::This => arguments.exit_signal = libc::SIGCHLD as u64,
        // The new process becomes a sibling of this one. When it ends, the kernel sends the signal this process was
        // started with.
        Parent::Ours => arguments.flags |= libc::CLONE_PARENT as u64,
    }
    arguments
}

/// What the child has to do, and where it reports a failure.
struct Task<F> {
    child: Option<F>,
    word: &'static AtomicU64,
}

impl<F: FnOnce() -> Failed> Task<F> {
    fn run(&mut self) -> ! {
        if let Some(child) = self.child.take() {
            let failed = child();
            self.word.store(
                1 << 63 | u64::from(failed.stage) << 32 | u64::from(failed.errno as u32),
                Ordering::SeqCst,
            );
        }
        exit(127)
    }
}

/// The child's entry point, on its own stack.
#[cfg(target_arch = "x86_64")]
extern "C" fn begin<F: FnOnce() -> Failed>(task: *mut libc::c_void) -> ! {
    // SAFETY: `start` passes a live, exclusive task of this very type; its owner sleeps until we are gone.
    let task = unsafe { &mut *task.cast::<Task<F>>() };
    task.run()
}

#[cfg(target_arch = "x86_64")]
fn start<F: FnOnce() -> Failed>(
    mut arguments: libc::clone_args,
    nest: &Nest,
    task: &mut Task<F>,
) -> io::Result<i32> {
    arguments.flags |= libc::CLONE_VM as u64;
    arguments.stack = nest.stack as u64 + GUARD as u64;
    arguments.stack_size = STACK as u64;
    let entry: extern "C" fn(*mut libc::c_void) -> ! = begin::<F>;
    let result: i64;
    // SAFETY: the arguments are a live `clone_args` naming an unused stack. The child finds only registers of the
    // parent; it takes `task` and `entry` from two the kernel preserves, aligns nothing (the top of the stack is
    // aligned, as `call` expects) and never returns. The parent sleeps until the child has its own memory or is
    // gone, and then sees the call return, with only the registers the kernel may change changed.
    unsafe {
        std::arch::asm!(
            "syscall",
            "test rax, rax",
            "jnz 2f",
            "xor ebp, ebp",
            "mov rdi, r12",
            "call r13",
            "ud2",
            "2:",
            inlateout("rax") libc::SYS_clone3 => result,
            in("rdi") &raw const arguments,
            in("rsi") size_of::<libc::clone_args>(),
            in("r12") std::ptr::from_mut(task),
            in("r13") entry,
            lateout("rcx") _,
            lateout("r11") _,
        );
    }
    if result < 0 { Err(io::Error::from_raw_os_error(-result as i32)) } else { Ok(result as i32) }
}

/// On other processors, without the instructions that start a child on another stack, the child gets a copy of the
/// memory.
#[cfg(not(target_arch = "x86_64"))]
fn start<F: FnOnce() -> Failed>(
    arguments: libc::clone_args,
    _: &Nest,
    task: &mut Task<F>,
) -> io::Result<i32> {
    match clone3(&arguments)? {
        0 => task.run(),
        pid => Ok(pid),
    }
}

/// Starts a process that goes on as a copy of this one, in `cgroup` if there is one. It ends when `child` returns.
pub fn fork_into(cgroup: Option<BorrowedFd<'_>>, parent: Parent, child: impl FnOnce()) -> io::Result<i32> {
    match clone3(&of(parent, born_in(cgroup)))? {
        0 => {
            child();
            exit(0)
        }
        pid => Ok(pid),
    }
}

/// Ends this process at once, without running destructors or exit handlers.
pub fn exit(code: i32) -> ! {
    // SAFETY: ends the process; nothing after it can observe anything.
    unsafe { libc::_exit(code) }
}

/// Executes a program by path. Returns only on failure.
pub fn execute(path: &CStr, argv: &Pointers, env: &Pointers) -> io::Error {
    // SAFETY: both arrays end in a null pointer and hold pointers to terminated strings, which their owners, borrowed
    // here, keep alive.
    unsafe { libc::execve(path.as_ptr(), argv.pointers.as_ptr(), env.pointers.as_ptr()) };
    io::Error::last_os_error()
}

/// Executes a program by descriptor. Returns only on failure.
pub fn execute_descriptor(program: i32, argv: &Pointers, env: &Pointers) -> io::Error {
    // SAFETY: as in `execute`; the path is a terminated empty string, so the kernel takes the descriptor itself.
    unsafe {
        libc::syscall(
            libc::SYS_execveat,
            program,
            c"".as_ptr(),
            argv.pointers.as_ptr(),
            env.pointers.as_ptr(),
            libc::AT_EMPTY_PATH,
        )
    };
    io::Error::last_os_error()
}

/// Strings in the form of `execve`: an array of pointers that ends in a null.
#[derive(Debug)]
pub struct Pointers {
    _strings: Vec<CString>,
    pointers: Vec<*const libc::c_char>,
}

impl Pointers {
    pub fn new(strings: Vec<CString>) -> Self {
        let pointers =
            strings.iter().map(|string| string.as_ptr()).chain(std::iter::once(std::ptr::null())).collect();
        Self { _strings: strings, pointers }
    }
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
    // SAFETY: takes numbers; closes what `number` was before, which callers intend for 0, 1 and 2.
    match unsafe { libc::dup2(source.as_raw_fd(), number) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// Has the kernel close `number` when this process executes a program.
pub fn close_on_exec(number: i32) -> io::Result<()> {
    // SAFETY: takes numbers.
    match unsafe { libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// Returns arguments for a child that is born in a cgroup, or in its parent's.
pub(crate) fn born_in(cgroup: Option<BorrowedFd<'_>>) -> libc::clone_args {
    match cgroup {
        Some(cgroup) => libc::clone_args {
            flags: CLONE_INTO_CGROUP,
            cgroup: cgroup.as_raw_fd() as u64,
            ..zeroed_arguments()
        },
        None => zeroed_arguments(),
    }
}

pub(crate) fn zeroed_arguments() -> libc::clone_args {
    // SAFETY: `clone_args` is a structure of integers; all zeroes asks for nothing.
    unsafe { std::mem::zeroed() }
}

/// The raw call, without a new stack: the child goes on where this returns 0, on a copy of this process's memory.
pub(crate) fn clone3(arguments: &libc::clone_args) -> io::Result<i32> {
    // SAFETY: `arguments` is a live `clone_args` of its stated size. callers never set CLONE_VM, so the child
    // has its own copy of the memory and returning twice is returning once in each process.
    let pid = unsafe {
        libc::syscall(libc::SYS_clone3, std::ptr::from_ref(arguments), size_of::<libc::clone_args>())
    };
    if pid < 0 { Err(io::Error::last_os_error()) } else { Ok(pid as i32) }
}
