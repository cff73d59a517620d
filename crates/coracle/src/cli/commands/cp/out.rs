//! Out of a sandbox to here. What a sandbox says its files are called is not trusted: nothing is written outside
//! the place that was asked for, and no link there is followed.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions, Permissions};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Component, Path, PathBuf};

use coracle::{Depth, Error, FileEntry, Kind, Result};
use coracle_engine::files::FileKind;
use coracle_engine::{Attached, text};
use rustix::fs::OFlags;

use super::Copied;

/// Copies a file or a directory.
pub fn copy(attached: &mut Attached, from: &[u8], to: &Path) -> Result<Copied> {
    let entry = attached.stat(from)?;
    let mut copied = Copied::default();
    let target = target(from, to)?;
    match entry.kind {
        FileKind::Dir => copy_tree(attached, from, &target, &mut copied)?,
        FileKind::File => copied.count(copy_file(attached, from, &target, &entry)?),
        // Followed inside the sandbox, so that a link named on the command line means the file it leads to.
        FileKind::Symlink => copied.count(copy_file(attached, from, &target, &entry)?),
        FileKind::Other => copied.skipped.push(entry.path),
    }
    Ok(copied)
}

/// What is copied onto a directory goes inside it, under its own name.
fn target(from: &[u8], to: &Path) -> Result<PathBuf> {
    if !to.is_dir() {
        return Ok(to.to_owned());
    }
    let name = from.split(|byte| *byte == b'/').rfind(|name| !matches!(*name, b"" | b"."));
    match name {
        Some(b"..") => Err(Error::invalid("from", "ends in `..`, which is no name for the copy")),
        Some(name) => Ok(to.join(OsStr::from_bytes(name))),
        // The workspace or the root itself: its contents go straight in.
        None => Ok(to.to_owned()),
    }
}

fn copy_tree(attached: &mut Attached, from: &[u8], to: &Path, copied: &mut Copied) -> Result<()> {
    let listed = attached.list(from, Depth::Tree)?;
    if listed.truncated {
        return Err(Error::new(
            Kind::LimitExceeded,
            "the directory holds too many files to be copied at once",
        )
        .hint("copy its subdirectories one by one"));
    }
    make_directory(to)?;
    for entry in listed.entries {
        let path = true_path(&entry)?;
        let target = confined(to, &path, from)?;
        match entry.kind {
            FileKind::Dir => make_directory(&target)?,
            FileKind::File => copied.count(copy_file(attached, &path, &target, &entry)?),
            FileKind::Symlink | FileKind::Other => copied.skipped.push(entry.path),
        }
    }
    Ok(())
}

fn copy_file(attached: &mut Attached, from: &[u8], to: &Path, entry: &FileEntry) -> Result<u64> {
    let mut file = create(to).map_err(|error| unwritable(to, error))?;
    let bytes = attached.read_file(from, &mut file)?;
    let mode = u32::from_str_radix(&entry.mode, 8).unwrap_or(0o644) & 0o777;
    // A link's own permissions say nothing of the file behind it.
    if entry.kind == FileKind::File {
        file.set_permissions(Permissions::from_mode(mode)).map_err(|error| unwritable(to, error))?;
    }
    Ok(bytes)
}

fn create(path: &Path) -> std::io::Result<File> {
    let no_links = OFlags::NOFOLLOW.bits() as i32;
    OpenOptions::new().write(true).create(true).truncate(true).custom_flags(no_links).open(path)
}

fn make_directory(path: &Path) -> Result<()> {
    match fs::create_dir(path) {
        Err(_) if fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_dir()) => Ok(()),
        made => made.map_err(|error| unwritable(path, error)),
    }
}

/// Returns where an entry of the tree belongs, if that is below the target and no link leads away from it.
fn confined(root: &Path, path: &[u8], from: &[u8]) -> Result<PathBuf> {
    let refuse = || {
        Error::new(Kind::Invalid, format!("could not copy `{}` out", String::from_utf8_lossy(path)))
            .hint("its name, or a link where it would go, leads out of the target directory")
    };
    let prefix = if from == b"." { b"" } else { from.strip_suffix(b"/").unwrap_or(from) };
    let relative = path.strip_prefix(prefix).ok_or_else(refuse)?;
    let relative = Path::new(OsStr::from_bytes(relative.strip_prefix(b"/").unwrap_or(relative)));
    let mut target = root.to_owned();
    for part in relative.components() {
        let Component::Normal(name) = part else { return Err(refuse()) };
        if target.is_symlink() && target != root {
            return Err(refuse());
        }
        target.push(name);
    }
    Ok(target)
}

fn true_path(entry: &FileEntry) -> Result<Vec<u8>> {
    match &entry.path_b64 {
        Some(base64) => Ok(text::decode("path", None, Some(base64.clone()))?.unwrap_or_default()),
        None => Ok(entry.path.clone().into_bytes()),
    }
}

fn unwritable(path: &Path, error: std::io::Error) -> Error {
    Error::new(Kind::Invalid, format!("could not write `{}`", path.display())).caused_by(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_leads_away_is_refused() {
        let root = tempfile::tempdir().expect("a directory can be made");
        std::os::unix::fs::symlink("/", root.path().join("link")).expect("the directory is ours");
        let to = |path: &str| confined(root.path(), path.as_bytes(), b"d").ok();

        assert_eq!(to("d/a/b"), Some(root.path().join("a/b")));
        assert_eq!((to("d/../../x"), to("other"), to("d/link/x")), (None, None, None));
    }

    #[test]
    fn the_contents_of_the_workspace_go_straight_in() {
        let here = tempfile::tempdir().expect("a directory can be made");

        assert_eq!(target(b".", here.path()).expect("a target"), here.path());
        assert_eq!(target(b"/a/b/", here.path()).expect("a target"), here.path().join("b"));
        assert!(target(b"a/..", here.path()).is_err());
    }
}
