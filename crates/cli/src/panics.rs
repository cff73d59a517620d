//! What a panic ends: one request of a daemon, or the whole process.

/// The name of threads that serve requests. A panic there only becomes an answer to its client.
pub const REQUESTS: &str = "coracle-request";

/// Makes a panic end the process, except on threads that serve requests and on the main one, where it becomes an exit
/// code.
///
/// Other threads serve the whole process: events, keepers, timers. If one ended silently, whatever waits for it would
/// wait for ever; a process that ends is noticed and replaced.
pub fn contain() {
    let print = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        print(panic);
        if !matches!(std::thread::current().name(), Some("main" | REQUESTS)) {
            std::process::abort();
        }
    }));
}
