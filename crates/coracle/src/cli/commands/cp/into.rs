//! From here into a sandbox.

use std::fs::{self, File, Metadata};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use coracle::{Depth, Error, Kind, NewFile, Result};
use coracle_engine::Attached;
use coracle_engine::files::FileKind;

use super::{Copied, below};

/// Copies a file or a directory.
pub fn copy(attached: &mut Attached, from: &Path, to: &[u8]) -> Result<Copied> {
    let metadata = from.metadata().map_err(|error| unreadable(from, error))?;
    let target = target(attached, from, to)?;
    let mut copied = Copied::default();
    walk(attached, from, &metadata, &target, &mut copied)?;
    Ok(copied)
}

/// What is copied onto a directory goes inside it, under its own name.
fn target(attached: &mut Attached, from: &Path, to: &[u8]) -> Result<Vec<u8>> {
    let inside = match attached.stat(to) {
        Ok(entry) => entry.kind == FileKind::Dir,
        Err(error) if error.kind == Kind::NotFound => to.ends_with(b"/"),
        Err(error) => return Err(error),
    };
    if !inside {
        return Ok(to.to_vec());
    }
    // `..` and `/` have no name of their own until they are resolved.
    let resolved = from.canonicalize().map_err(|error| unreadable(from, error))?;
    let name = resolved.file_name().ok_or_else(|| Error::invalid("from", "has no name"))?;
    Ok(below(to, name.as_bytes()))
}

fn walk(
    attached: &mut Attached,
    from: &Path,
    metadata: &Metadata,
    to: &[u8],
    copied: &mut Copied,
) -> Result<()> {
    if metadata.is_file() {
        let mut source = File::open(from).map_err(|error| unreadable(from, error))?;
        let mode = metadata.permissions().mode() & 0o777;
        attached.write_file(&NewFile { mode: Some(mode), ..NewFile::at(to) }, &mut source)?;
        copied.count(metadata.len());
        return Ok(());
    }
    if !metadata.is_dir() {
        copied.skipped.push(from.display().to_string());
        return Ok(());
    }
    let mut entries = fs::read_dir(from).map_err(|error| unreadable(from, error))?.peekable();
    if entries.peek().is_none() {
        return make_empty(attached, to);
    }
    for entry in entries {
        let entry = entry.map_err(|error| unreadable(from, error))?;
        // Of the entry itself: a link below the directory is not followed out of it.
        let metadata = entry.metadata().map_err(|error| unreadable(&entry.path(), error))?;
        walk(attached, &entry.path(), &metadata, &below(to, entry.file_name().as_bytes()), copied)?;
    }
    Ok(())
}

/// A sandbox makes directories for the files in them; one that goes again leaves its directory behind.
fn make_empty(attached: &mut Attached, directory: &[u8]) -> Result<()> {
    let path = below(directory, b".coracle-empty");
    attached.write_file(&NewFile::at(path.as_slice()), &mut std::io::empty())?;
    attached.delete(&path, Depth::One)
}

fn unreadable(path: &Path, error: std::io::Error) -> Error {
    Error::new(Kind::Invalid, format!("could not read `{}`", path.display())).caused_by(error)
}
