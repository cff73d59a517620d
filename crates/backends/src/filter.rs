//! The system call filters, compiled when coracle was built.

use coracle_core::spec::Privileges;

/// For the forker and every command.
pub const COMMANDS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/filter"));
/// The same, with `privileges: debug`.
pub const DEBUG: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/debug-filter"));
/// Added where commands work in a directory of the caller's: no command may leave a set-user-id file there.
pub const SHARED: [&[u8]; 2] = [
    include_bytes!(concat!(env!("OUT_DIR"), "/modes-filter")),
    include_bytes!(concat!(env!("OUT_DIR"), "/openat2-filter")),
];
/// Added where the sandbox's users are the machine's: their file watches count against the machine's own users.
pub const WATCHES: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/watches-filter"));
/// The filter that each command adds last.
pub const LAST: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/last-filter"));
/// What a container engine lets a container do as a whole, in the container engine's notation.
pub const PROFILE: &str = include_str!(concat!(env!("OUT_DIR"), "/profile.json"));
/// The same, with `privileges: debug`.
pub const DEBUG_PROFILE: &str = include_str!(concat!(env!("OUT_DIR"), "/debug-profile.json"));

/// Returns in a few words what the filters keep commands from.
pub fn described(privileges: Privileges) -> &'static str {
    match privileges {
        Privileges::Minimal | Privileges::Install => {
            "allow-list, socket families, no foreign ABI, no tracing without `privileges: debug`"
        }
        Privileges::Debug => "allow-list, socket families, no foreign ABI; commands may trace each other",
    }
}
