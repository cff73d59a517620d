//! The time since the machine was started.

use std::time::Duration;

/// Returns the time since boot, sleep included. Unlike the time of day, it cannot be set.
pub fn up() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the argument is a live `timespec`, which the kernel fills. Every kernel we run on has this clock; one
    // without it writes nothing, and the time stays zero.
    unsafe { libc::clock_gettime(libc::CLOCK_BOOTTIME, &raw mut time) };
    let (seconds, nanos) =
        (u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0));
    Duration::new(seconds, nanos)
}
