//! Every unsafe block and every raw system call of coracle. One kernel idea per file; owned descriptors in,
//! `io::Result` out; no policy, no logging.

pub mod block;
pub mod capability;
pub mod cgroup;
pub mod clock;
pub mod confine;
pub mod descriptors;
pub mod enter;
pub mod heap;
pub mod identity;
pub mod idmap;
pub mod inherited;
pub mod landlock;
pub mod launch;
pub mod limited;
pub mod loopback;
pub mod mount;
pub mod path;
pub mod seccomp;
pub mod signal;
pub mod spawn;
pub mod terminal;
pub mod tie;
pub mod tree;

pub use rustix;
