//! Settings of the C library's memory allocator.

/// Makes all threads allocate from one arena. By default each thread gets its own, which costs a thread that
/// answers one request more than all its work.
pub fn share_arena() {
    limit_arenas(1);
}

/// Makes all threads allocate from this many arenas. By default there are eight for each processor, and each keeps
/// some freed memory.
pub fn limit_arenas(count: i32) {
    // SAFETY: sets a parameter of the allocator, which takes its own lock for it; existing arenas stay.
    unsafe { libc::mallopt(libc::M_ARENA_MAX, count) };
}

/// The allocator returns freed blocks of at least this size to the machine. By default it raises this bound with
/// the first large block that is freed, and then keeps what a burst of large answers took.
const LARGE: i32 = 128 << 10;

/// Makes the allocator return large blocks as soon as they are freed.
pub fn return_large_blocks() {
    // SAFETY: sets a parameter of the allocator, which takes its own lock for it.
    unsafe { libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE) };
}
