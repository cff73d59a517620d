//! The harness of the black-box suites: a home of its own for each test, the binary with a hard end to every call,
//! and a census of what is left on the machine.

pub mod attack;
pub mod binary;
pub mod call;
pub mod census;
pub mod daemon;
pub mod debian;
pub mod engines;
pub mod filesystem;
pub mod git;
pub mod home;
pub mod http;
pub mod internet;
pub mod load;
pub mod mcp;
pub mod needs;
pub mod patience;
pub mod peers;
pub mod swap;
pub mod terminal;

pub use attack::{Arena, Attack, Breaches, Canary, Route};
pub use call::{Call, Finished, Started};
pub use census::Census;
pub use daemon::Daemon;
pub use git::Git;
pub use home::Home;
pub use internet::Internet;
pub use patience::{SOON, eventually};

/// Returns the first number, or the second in a full run.
pub fn count(quick: usize, full: usize) -> usize {
    match std::env::var_os("CORACLE_FULL") {
        Some(_) => full,
        None => quick,
    }
}
