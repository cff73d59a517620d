//! Finds a project's file: in the working directory or above it, within the repository.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use coracle_core::{Error, Kind, Result};
use rustix::fs::OFlags;

use super::Project;

const PLACE: &str = ".openagents/project.json";
/// People write these files by hand; a larger one is no project file.
const SIZE_MAX: u64 = 1 << 20;
/// More directories than any working directory has above it.
const DEPTH_MAX: usize = 128;
const ROOT: u32 = 0;

/// Finds the nearest project file: from `start` upwards, not past a repository's root, and neither in the user's home
/// directory nor above it.
///
/// Ignores a file whose owner is neither the caller, nor root, nor the owner of `start`: any user could put one into
/// `/tmp`.
pub fn find(start: &Path, home: Option<PathBuf>, user: u32) -> Result<Option<Project>> {
    let trusted = [Some(user), Some(ROOT), std::fs::metadata(start).ok().map(|start| start.uid())];
    for directory in
        start.ancestors().take(DEPTH_MAX).take_while(|directory| Some(*directory) != home.as_deref())
    {
        let path = directory.join(PLACE);
        match open(&path) {
            Ok((file, owner)) if trusted.contains(&Some(owner)) => return read(&path, file),
            Ok(_) => {}
            Err(error) if is_absent(&error) => {}
            Err(error) => return Err(unreadable(&path).caused_by(error)),
        }
        if directory.join(".git").symlink_metadata().is_ok() {
            break;
        }
    }
    Ok(None)
}

/// Opens a plain file and returns its owner. Refuses a pipe, which could block us, and a link, which could lead
/// anywhere.
fn open(path: &Path) -> io::Result<(File, u32)> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = OpenOptions::new().read(true).custom_flags(flags.bits() as i32).open(path)?;
    let metadata = file.metadata()?;
    match metadata.is_file() {
        true => Ok((file, metadata.uid())),
        false => Err(io::Error::other("it is not a plain file")),
    }
}

fn read(path: &Path, file: File) -> Result<Option<Project>> {
    let mut text = String::new();
    let length = file
        .take(SIZE_MAX + 1)
        .read_to_string(&mut text)
        .map_err(|error| unreadable(path).caused_by(error))?;
    match length as u64 > SIZE_MAX {
        true => {
            Err(unreadable(path).caused_by(io::Error::other(format!("it has more than {SIZE_MAX} bytes"))))
        }
        false => Project::parse(path, &text),
    }
}

fn is_absent(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory | io::ErrorKind::PermissionDenied
    )
}

fn unreadable(path: &Path) -> Error {
    Error::new(Kind::Invalid, format!("could not read `{}`", path.display()))
        .detail("file", path.to_string_lossy())
        .hint("put a plain file there, or have coracle ignore it with CORACLE_PROJECT=ignore")
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    const BLOCK: &str = r#"{"sandbox": {"image": "host"}}"#;

    struct Tree(tempfile::TempDir);

    impl Tree {
        fn new() -> Self {
            Self(tempfile::tempdir().expect("a directory can be made"))
        }

        fn make(&self, below: &str) -> PathBuf {
            let path = self.0.path().join(below);
            std::fs::create_dir_all(&path).expect("ours");
            path
        }

        fn project(&self, below: &str) -> PathBuf {
            let path = self.make(below).join(PLACE);
            std::fs::create_dir_all(path.parent().expect("a directory")).expect("ours");
            std::fs::write(&path, BLOCK).expect("ours");
            path
        }

        fn find(&self, below: &str) -> Result<Option<PathBuf>> {
            let found = find(&self.make(below), Some(self.0.path().to_owned()), whoami())?;
            Ok(found.map(|project| project.path))
        }
    }

    fn whoami() -> u32 {
        rustix::process::geteuid().as_raw()
    }

    #[test]
    fn the_nearest_counts_up_to_the_root_of_the_repository() {
        let tree = Tree::new();
        let (outer, inner) = (tree.project("repo"), tree.project("repo/part"));
        tree.make("repo/.git");
        tree.make("repo/other/.git");

        assert_eq!(tree.find("repo/part/deep/er").expect("a look"), Some(inner));
        assert_eq!(tree.find("repo/src").expect("a look"), Some(outer));
        assert_eq!(tree.find("repo/other/src").expect("a look"), None);
    }

    #[test]
    fn the_home_directory_is_no_project() {
        let tree = Tree::new();
        tree.project("");

        assert_eq!(tree.find("work").expect("a look"), None);
        assert_eq!(tree.find("").expect("a look"), None);
    }

    #[test]
    fn what_is_no_plain_file_is_neither_followed_nor_waited_for() {
        let tree = Tree::new();
        let place = tree.make("repo/.openagents").join("project.json");
        symlink(tree.project("elsewhere"), &place).expect("ours");

        assert_eq!(tree.find("repo").expect_err("a link").kind, Kind::Invalid);

        std::fs::remove_file(&place).expect("ours");
        let made = std::process::Command::new("mkfifo").arg(&place).status().expect("mkfifo is there");
        assert!(made.success());
        assert_eq!(tree.find("repo").expect_err("a pipe").kind, Kind::Invalid);

        std::fs::remove_file(&place).expect("ours");
        std::fs::write(&place, " ".repeat(SIZE_MAX as usize + 1)).expect("ours");
        assert_eq!(tree.find("repo").expect_err("too long").kind, Kind::Invalid);
    }

    #[test]
    fn what_a_stranger_put_there_is_not_the_projects() {
        let tree = Tree::new();
        let path = tree.project("shared");
        let work = tree.make("shared/work");
        let Ok(()) = std::os::unix::fs::chown(&path, Some(12_345), None) else {
            // Only root can give files away; other users have no foreign file to test with.
            return;
        };

        let found = find(&work, None, whoami()).expect("a look");
        std::os::unix::fs::chown(&work, Some(12_345), None).expect("root may");
        let own = find(&work, None, whoami()).expect("a look");

        assert_eq!(found, None);
        assert_eq!(own.map(|project| project.path), Some(path));
    }
}
