//! Files of the sandbox, opened inside the sandbox: a link can only ever lead to another place in it.
//!
//! A relative path starts at the workspace and may not leave it; an absolute one names the sandbox's own tree. The
//! guest has more rights than commands have, so it never opens what is not a plain file or directory, nor anything on
//! a filesystem that speaks of processes: there its own memory would be a file.

mod delete;
mod make;
mod place;
mod read;
mod upload;
mod walk;

use std::io;

use coracle_sys::rustix::fs::{RenameFlags, Timespec, Timestamps, UTIME_OMIT, renameat_with};
use coracle_wire::{Fault, FaultCode, Reply, Time};

pub use delete::delete;
pub use make::{finish_directory, make_directory, make_link};
pub use place::{Links, keep_out_of, make_own_directory, open_plain, open_roots, open_roots_again, seal};
pub use read::{Reading, is_last, read, stat};
pub use upload::{Replacing, Upload};
pub use walk::{Scope, Walk};

/// Gives a file another name. Answered by `Done`.
pub fn rename(from: &[u8], to: &[u8], overwrite: bool, top: Option<u32>) -> Result<Reply, Fault> {
    let (source, target) = (
        place::entry_in_tree(from, top, place::Parents::Expect)?,
        place::entry_in_tree(to, top, place::Parents::Make)?,
    );
    let flags = if overwrite { RenameFlags::empty() } else { RenameFlags::NOREPLACE };
    renameat_with(&source.parent, &source.name, &target.parent, &target.name, flags)
        .map_err(refused("move", from))?;
    Ok(Reply::Done {})
}

/// Says that a request came without the one it continues.
pub fn out_of_turn(what: &str) -> Fault {
    Fault { code: FaultCode::Invalid, message: format!("{what} on this connection"), errno: None }
}

/// Returns times for the kernel: the last change, and no word about the last access.
fn times(mtime: Time) -> Timestamps {
    Timestamps {
        last_access: Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
        last_modification: Timespec { tv_sec: mtime.seconds, tv_nsec: mtime.nanos.min(999_999_999).into() },
    }
}

/// Returns a function that says what was attempted on which path when the kernel refused.
fn refused<E: Into<io::Error>>(attempted: &str, path: &[u8]) -> impl FnOnce(E) -> Fault {
    let message = format!("could not {attempted} `{}`", String::from_utf8_lossy(path));
    move |error| Fault { code: FaultCode::File, message, errno: error.into().raw_os_error() }
}
