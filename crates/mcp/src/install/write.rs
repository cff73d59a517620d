//! Reads a client's settings file, and replaces it atomically.

use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use coracle_core::{Error, Result};

/// A client's own file may have a few megabytes; a larger one is something else.
const BYTES_MAX: u64 = 64 << 20;

/// Returns the contents of a file, empty if it does not exist.
pub fn read(path: &Path) -> Result<String> {
    let failed = |error| Error::internal(format!("could not read `{}`", path.display()), error);
    let file = match fs::File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(String::new()),
        Err(error) => return Err(failed(error)),
    };
    let mut text = String::new();
    file.take(BYTES_MAX + 1).read_to_string(&mut text).map_err(failed)?;
    match text.len() as u64 > BYTES_MAX {
        true => Err(Error::invalid("client", format!("has more than {BYTES_MAX} bytes of settings"))),
        false => Ok(text),
    }
}

/// Writes a new file beside it and renames that: readers see the old or the new one.
pub fn replace(path: &Path, text: &str) -> Result<()> {
    write(path, text).map_err(|error| Error::internal(format!("could not write `{}`", path.display()), error))
}

fn write(path: &Path, text: &str) -> io::Result<()> {
    // People keep their settings elsewhere and link to them; the link stays.
    let path = &fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let directory = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
    fs::create_dir_all(directory)?;
    let beside = beside(path)?;
    let written = fill(&beside, path, text).and_then(|()| fs::rename(&beside, path));
    if written.is_err() {
        // Only coracle uses this name, so a leftover does no harm.
        let _ = fs::remove_file(&beside);
    }
    written
}

fn fill(beside: &Path, path: &Path, text: &str) -> io::Result<()> {
    // These files may hold tokens of other servers, so only the owner may read a new one.
    let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(beside)?;
    if let Ok(before) = fs::metadata(path) {
        file.set_permissions(before.permissions())?;
    }
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

fn beside(path: &Path) -> io::Result<PathBuf> {
    let mut random = [0; 8];
    getrandom::fill(&mut random).map_err(io::Error::other)?;
    let mut name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?.to_owned();
    name.push(format!(".coracle-{:016x}", u64::from_ne_bytes(random)));
    Ok(path.with_file_name(name))
}
