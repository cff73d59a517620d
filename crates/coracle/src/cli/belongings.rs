//! What in a home is coracle's, by name. Everything else in it is somebody's and stays.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use coracle::ballast::Ballast;
use coracle::{Error, Kind, Result};
use coracle_core::InstanceId;
use coracle_core::headroom::freeing;
use coracle_sys::tree;

use super::lock::{self, Duty};

/// The record of everything: as long as it is there, a purge that was cut short knows all it has to. It goes last but one.
const DATABASE: &str = "coracle.db";
/// The home's id. By it a purge finds what is left on the machine, database or not, so it goes last.
const INSTANCE: &str = "instance";
/// Directories and files that coracle makes, whatever is in them. The settings are the person's.
const OURS: [&str; 23] = [
    "sandboxes",
    "guest",
    "images",
    "disks",
    "volumes",
    "snapshots",
    "engines",
    "keepers",
    "logs",
    "locks",
    "swept",
    "collected",
    "said",
    "stock.sock",
    "stock.lock",
    "migrate.lock",
    "coracle.sock",
    "serve.lock",
    "audit.jsonl",
    "ballast",
    "claims",
    "making",
    "instance.draft",
];
/// Files that belong to the database and are of no use without it.
const BESIDE: [&str; 3] = ["coracle.db-wal", "coracle.db-shm", "coracle.mark"];

/// Tells whether there is nothing to remove.
pub fn is_absent(home: &Path) -> Result<bool> {
    match fs::read_dir(home) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(true),
        entries => Ok(entries.map_err(|error| unusable(home, error))?.next().is_none()),
    }
}

/// Refuses a directory that is not one of coracle's homes.
pub fn expect_home(home: &Path) -> Result<()> {
    // A home that has lost its database is still one of ours.
    if fs::read_to_string(home.join(INSTANCE)).is_ok_and(|id| id.trim_end().parse::<InstanceId>().is_ok()) {
        return Ok(());
    }
    // The name alone could be anybody's; that it is ours, opening it will tell.
    let magic = File::open(home.join(DATABASE)).and_then(|mut file| {
        let mut start = [0; 16];
        io::Read::read_exact(&mut file, &mut start).map(|()| start)
    });
    match magic {
        Ok(start) if &start == b"SQLite format 3\0" => Ok(()),
        _ => Err(Error::new(Kind::Invalid, format!("`{}` is not a home of coracle", home.display()))
            .hint("name the right one with `--home` or CORACLE_HOME; nothing was removed")),
    }
}

/// Refuses a home that a daemon serves; none starts to for as long as the result is kept.
pub fn expect_no_daemon(home: &Path) -> Result<File> {
    freeing(&Ballast::of(home), || lock::only_one(home, Duty::Serve))?.ok_or_else(|| {
        Error::new(Kind::Conflict, format!("a daemon serves the home `{}`", home.display()))
            .hint("end `coracle serve` first; nothing was removed")
    })
}

/// Removes what is ours, and the home if nothing else is in it; returns what is left.
pub fn remove(home: &Path) -> Result<Vec<String>> {
    let failed = |error| unusable(home, error);
    let directory = File::open(home).map_err(failed)?;
    for name in OURS.iter().chain(&BESIDE).chain([&DATABASE, &INSTANCE]) {
        discard(&directory, OsStr::new(name)).map_err(failed)?;
    }
    let left: Vec<_> = fs::read_dir(home).map_err(failed)?.flatten().map(|entry| entry.file_name()).collect();
    if left.is_empty() {
        fs::remove_dir(home).map_err(failed)?;
    }
    Ok(left.iter().map(|name| name.to_string_lossy().into_owned()).collect())
}

/// Removes one entry with all below it. No link is followed: volumes hold what sandboxes have written.
fn discard(directory: &File, name: &OsStr) -> io::Result<()> {
    let name = std::ffi::CString::new(name.as_bytes())?;
    match tree::remove(directory.as_fd(), &name) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

fn unusable(home: &Path, error: io::Error) -> Error {
    Error::new(Kind::NotAvailable, format!("could not remove all of `{}`", home.display()))
        .hint("see what is in the way, then purge again")
        .caused_by(error)
}
