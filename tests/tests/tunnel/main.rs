//! The connection to a container engine on another machine, through a real sshd and the machine's own ssh.
//!
//! Not part of `engines`, which is one of the longest suites already.

mod engine;
mod far;
mod faults;
mod life;
mod refusals;
