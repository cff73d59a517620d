//! What a panic ends: one request of a daemon, or the whole process.

/// What threads are called that serve requests. A panic there is an answer to its client, and nothing else.
pub const REQUESTS: &str = "coracle-request";

/// Has a panic end the process, except on threads that serve requests and on the main one, where it becomes an exit code.
///
/// Other threads tend something for everybody: events, keepers, timers. One that is gone without a word leaves what waits for
/// it waiting for ever; a process that is gone is noticed and replaced.
pub fn contain() {
    let print = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        print(panic);
        if !matches!(std::thread::current().name(), Some("main" | REQUESTS)) {
            std::process::abort();
        }
    }));
}
