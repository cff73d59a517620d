//! Knows by name which files in a home are coracle's, and removes them. It leaves everything else in the home alone.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;

use coracle::ballast::Ballast;
use coracle::{Error, Kind, Result};
use coracle_core::headroom::freeing;
use coracle_core::{Home, InstanceId};
use coracle_sys::tree;

use super::lock::{self, Duty};

/// Tells whether there is nothing to remove.
pub fn is_absent(home: &Home) -> Result<bool> {
    match fs::read_dir(home.path()) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(true),
        entries => Ok(entries.map_err(|error| unusable(home, error))?.next().is_none()),
    }
}

/// Refuses a directory that is not one of coracle's homes.
pub fn expect_home(home: &Home) -> Result<()> {
    // A home that has lost its database is still one of ours.
    if fs::read_to_string(home.instance()).is_ok_and(|id| id.trim_end().parse::<InstanceId>().is_ok()) {
        return Ok(());
    }
    // The name alone proves nothing; opening the database will tell whether it is ours.
    let magic = File::open(home.database()).and_then(|mut file| {
        let mut start = [0; 16];
        io::Read::read_exact(&mut file, &mut start).map(|()| start)
    });
    match magic {
        Ok(start) if &start == b"SQLite format 3\0" => Ok(()),
        _ => Err(Error::new(Kind::Invalid, format!("`{}` is not a home of coracle", home.path().display()))
            .hint("name the right one with `--home` or CORACLE_HOME; nothing was removed")),
    }
}

/// Refuses a home that a daemon serves; no daemon can start while the result is kept.
pub fn expect_no_daemon(home: &Home) -> Result<File> {
    freeing(&Ballast::of(home), || lock::only_one(home, Duty::Serve))?.ok_or_else(|| {
        Error::new(Kind::Conflict, format!("a daemon serves the home `{}`", home.path().display()))
            .hint("end `coracle serve` first; nothing was removed")
    })
}

/// Removes what is ours, and the home if nothing else is in it; returns what is left.
pub fn remove(home: &Home) -> Result<Vec<String>> {
    let failed = |error| unusable(home, error);
    let directory = File::open(home.path()).map_err(failed)?;
    for name in Home::OWN {
        discard(&directory, OsStr::new(name)).map_err(failed)?;
    }
    let left: Vec<_> =
        fs::read_dir(home.path()).map_err(failed)?.flatten().map(|entry| entry.file_name()).collect();
    if left.is_empty() {
        fs::remove_dir(home.path()).map_err(failed)?;
    }
    Ok(left.iter().map(|name| name.to_string_lossy().into_owned()).collect())
}

/// Removes one entry with everything below it. Follows no link: volumes hold what sandboxes have written.
fn discard(directory: &File, name: &OsStr) -> io::Result<()> {
    let name = std::ffi::CString::new(name.as_bytes())?;
    match tree::remove(directory.as_fd(), &name) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

fn unusable(home: &Home, error: io::Error) -> Error {
    Error::new(Kind::NotAvailable, format!("could not remove all of `{}`", home.path().display()))
        .hint("see what is in the way, then purge again")
        .caused_by(error)
}
