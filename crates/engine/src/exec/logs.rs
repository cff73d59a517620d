//! Output that outlives its sandbox: what a guest still holds of its execs when the sandbox is closed.
//!
//! Kept are output and how execs ended, nothing of what was run. Output is output: a command that prints a secret has it
//! kept, as its reader has it. Where it is kept is a port ([`coracle_core::KeptLogs`]).

mod collect;
mod kept;

pub(crate) use self::kept::Kept;
