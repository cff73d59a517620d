//! The directory of the database. It holds boot secrets, so only its owner may read it.

use std::fs::{DirBuilder, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use coracle_core::error::{Error, Kind, Result};
use coracle_core::home::Home;

const PRIVATE_DIRECTORY: u32 = 0o700;
const PRIVATE_FILE: u32 = 0o600;
const STICKY: u32 = 0o1000;
const WRITABLE_BY_OTHERS: u32 = 0o022;

/// Makes a directory that only its owner may enter, its parents included.
pub fn make_private(directory: &Path) -> Result<()> {
    DirBuilder::new()
        .recursive(true)
        .mode(PRIVATE_DIRECTORY)
        .create(directory)
        .map_err(|error| unusable(directory, "make directory", error))?;
    keep_private(directory)
}

/// Makes an existing directory private, if it is plainly meant for us; refuses one that others may write to.
fn keep_private(directory: &Path) -> Result<()> {
    let inspect = |error| unusable(directory, "inspect", error);
    let mode = directory.metadata().map_err(inspect)?.permissions().mode();
    let empty = directory.read_dir().map_err(inspect)?.next().is_none();
    // An empty `mkdir home` is ours to make private; a full or sticky one may be `/tmp`.
    if empty && mode & STICKY == 0 && mode & 0o777 != PRIVATE_DIRECTORY {
        return std::fs::set_permissions(directory, Permissions::from_mode(PRIVATE_DIRECTORY))
            .map_err(|error| unusable(directory, "close to others", error));
    }
    if mode & WRITABLE_BY_OTHERS == 0 {
        return Ok(());
    }
    let shown = directory.display();
    Err(Error::new(Kind::Invalid, format!("home directory `{shown}` can be written to by others"))
        .hint(format!("run `chmod 700 {shown}`, or choose another with `--home`")))
}

/// Waits for the right to make or migrate the database, and to note the home's id. Dropping the result releases it.
pub fn migration_lock(home: &Home) -> Result<File> {
    let path = home.migration_lock();
    let lock = open_lock(&path).map_err(|error| unusable(&path, "open", error))?;
    lock.lock().map_err(|error| unusable(&path, "lock", error))?;
    Ok(lock)
}

/// Opens a lock file; makes it if it is missing.
pub fn open_lock(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(PRIVATE_FILE).open(path)
}

/// Returns the error for a home that cannot be used.
pub fn unusable(path: &Path, attempt: &str, error: io::Error) -> Error {
    Error::new(Kind::NotAvailable, format!("could not {attempt} `{}`", path.display()))
        .hint("check that you own the home directory and may write to it, or choose another with `--home`")
        .caused_by(error)
}
