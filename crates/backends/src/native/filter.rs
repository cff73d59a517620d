//! The system call filters, compiled when coracle was built.

/// For the forker and every command.
pub const COMMANDS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/filter"));
/// What each command adds last.
pub const LAST: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/last-filter"));
