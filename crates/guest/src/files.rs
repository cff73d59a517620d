//! File operations of the sandbox. The guest opens files inside the sandbox, so a link can only lead to a place in
//! it.
//!
//! A relative path starts at the workspace and may not leave it; an absolute one starts at the sandbox's root. The
//! guest has more rights than commands, so it opens nothing but plain files and directories, and nothing on a
//! filesystem that shows processes: there its own memory would be a file.

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

/// Renames a file. Answers with `Done`.
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

/// Returns times for the kernel: sets the last change and leaves the last access alone.
fn times(mtime: Time) -> Timestamps {
    Timestamps {
        last_access: Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
        last_modification: Timespec { tv_sec: mtime.seconds, tv_nsec: mtime.nanos.min(999_999_999).into() },
    }
}

/// Returns a function that turns the kernel's error into a fault which names the attempt and the path.
fn refused<E: Into<io::Error>>(attempted: &str, path: &[u8]) -> impl FnOnce(E) -> Fault {
    let message = format!("could not {attempted} `{}`", String::from_utf8_lossy(path));
    move |error| Fault { code: FaultCode::File, message, errno: error.into().raw_os_error() }
}
