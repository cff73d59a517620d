//! The way to an engine on another machine, through a real sshd and the machine's own ssh.

mod engine;
mod far;
mod faults;
mod life;
mod refusals;
