//! What a git that was killed leaves in a repository: locks of refs, which would refuse every later change, and objects that
//! were never taken in.

use std::fs;
use std::io;
use std::path::Path;

/// Where git makes locks.
const REFS: &str = "refs";
/// What the names of unfinished directories and files among objects begin with.
const UNFINISHED: &[&str] = &["incoming-", "tmp_", "tmp-"];

/// Removes them. The caller has locked the repository for itself alone.
pub(crate) fn remove(git: &Path) -> io::Result<()> {
    for entry in entries(git)? {
        if is_lock(&entry) {
            fs::remove_file(entry.path())?;
        }
    }
    remove_locks(&git.join(REFS))?;
    for place in ["objects", "objects/pack"] {
        for entry in entries(&git.join(place))? {
            let name = entry.file_name();
            if name.to_str().is_none_or(|name| !UNFINISHED.iter().any(|begin| name.starts_with(begin))) {
                continue;
            }
            match entry.file_type()?.is_dir() {
                true => fs::remove_dir_all(entry.path())?,
                false => fs::remove_file(entry.path())?,
            }
        }
    }
    Ok(())
}

fn remove_locks(place: &Path) -> io::Result<()> {
    for entry in entries(place)? {
        if entry.file_type()?.is_dir() {
            remove_locks(&entry.path())?;
        } else if is_lock(&entry) {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

fn is_lock(entry: &fs::DirEntry) -> bool {
    entry.file_name().to_str().is_some_and(|name| name.ends_with(".lock") || name.ends_with(".draft"))
}

fn entries(place: &Path) -> io::Result<Vec<fs::DirEntry>> {
    match fs::read_dir(place) {
        Ok(entries) => entries.collect(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}
