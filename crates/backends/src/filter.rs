//! The system call filters, compiled when coracle was built.

use coracle_core::spec::Privileges;

/// For the forker and every command.
pub const COMMANDS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/filter"));
/// The same, with `privileges: debug`.
pub const DEBUG: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/debug-filter"));
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
/// The same, with `privileges: debug`.
pub const DEBUG_PROFILE: &str = include_str!(concat!(env!("OUT_DIR"), "/debug-profile.json"));

/// Returns what the filters keep commands from, in a few words.
pub fn described(privileges: Privileges) -> &'static str {
    match privileges {
        Privileges::Minimal | Privileges::Install => {
            "allow-list, socket families, no foreign ABI, no tracing without `privileges: debug`"
        }
        Privileges::Debug => "allow-list, socket families, no foreign ABI; commands may trace each other",
    }
}
