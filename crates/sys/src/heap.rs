//! The C library's memory allocator.

/// Makes all threads allocate from one place. By default each gets an arena of its own, which costs a thread that
/// answers one request more than everything it does.
pub fn share_arena() {
    limit_arenas(1);
}

/// Makes all threads allocate from this many places. By default there are eight for each processor, and each keeps some
/// of what was freed there.
pub fn limit_arenas(count: i32) {
    // SAFETY: sets a parameter of the allocator, which takes its own lock for it; arenas that are there stay.
    unsafe { libc::mallopt(libc::M_ARENA_MAX, count) };
}

/// Blocks of this size and more go back to the machine when they are freed. Left alone, the allocator raises its bound
/// with the first large block that is freed, and then keeps what a burst of large answers took.
const LARGE: i32 = 128 << 10;

/// Has large blocks given back as soon as they are freed.
pub fn return_large_blocks() {
    // SAFETY: sets a parameter of the allocator, which takes its own lock for it.
    unsafe { libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE) };
}
