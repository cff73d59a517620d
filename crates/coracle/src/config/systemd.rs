//! What a service manager tells a daemon it starts.

use std::path::PathBuf;

/// The first descriptor it passes on.
const FIRST: i32 = 3;
/// Nobody has that many listeners; a larger number is nonsense.
const SOCKETS_MAX: i32 = 16;

/// Returns the numbers of sockets that are open already, if they are meant for this process.
pub fn sockets() -> Vec<i32> {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<i32>().ok());
    let ours = number("LISTEN_PID") == Some(rustix::process::getpid().as_raw_nonzero().get());
    let count = number("LISTEN_FDS").filter(|count| ours && (1..=SOCKETS_MAX).contains(count));
    (0..count.unwrap_or(0)).map(|index| FIRST + index).collect()
}

/// Returns where to say that the daemon is ready. A name that begins with `@` is an abstract one.
pub fn notify_socket() -> Option<PathBuf> {
    std::env::var_os("NOTIFY_SOCKET").filter(|path| !path.is_empty()).map(PathBuf::from)
}
