//! The C library's memory allocator.

/// Makes all threads allocate from one place. By default each gets an arena of its own, which costs a thread that
/// answers one request more than everything it does.
pub fn share_arena() {
    // SAFETY: sets a parameter of the allocator; called before any other thread exists.
    unsafe { libc::mallopt(libc::M_ARENA_MAX, 1) };
}
