//! What a service manager passes to a daemon it starts.

use std::path::PathBuf;

/// The first descriptor that the service manager passes.
const FIRST: i32 = 3;
/// More than any daemon listens on; a larger number is an error.
const SOCKETS_MAX: i32 = 16;

/// Returns the descriptors of sockets the service manager opened for this process.
pub fn sockets() -> Vec<i32> {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<i32>().ok());
    let ours = number("LISTEN_PID") == Some(rustix::process::getpid().as_raw_nonzero().get());
    let count = number("LISTEN_FDS").filter(|count| ours && (1..=SOCKETS_MAX).contains(count));
    (0..count.unwrap_or(0)).map(|index| FIRST + index).collect()
}

/// Returns the socket on which to report readiness. A name that begins with `@` is an abstract one.
pub fn notify_socket() -> Option<PathBuf> {
    std::env::var_os("NOTIFY_SOCKET").filter(|path| !path.is_empty()).map(PathBuf::from)
}
