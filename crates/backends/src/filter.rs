//! The system call filters, compiled when coracle was built.

/// For the forker and every command.
pub const COMMANDS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/filter"));
/// Added where commands work in a directory of the caller's: none may leave a file there that lends rights.
pub const SHARED: [&[u8]; 2] = [
    include_bytes!(concat!(env!("OUT_DIR"), "/modes-filter")),
    include_bytes!(concat!(env!("OUT_DIR"), "/openat2-filter")),
];
/// Added where the sandbox's users are the machine's: what they watch files with counts against the machine's own.
pub const WATCHES: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/watches-filter"));
/// What each command adds last.
pub const LAST: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/last-filter"));
/// What an engine lets a container do as a whole, as engines write it.
pub const PROFILE: &str = include_str!(concat!(env!("OUT_DIR"), "/profile.json"));
