//! The connection to a container engine on another machine, through a real sshd and the machine's own ssh.
//!
//! Not part of `engines`, so that it runs beside that: the longest suite.

mod engine;
mod far;
mod faults;
mod life;
mod refusals;
