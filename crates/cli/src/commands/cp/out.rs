//! Copies from a sandbox to this machine. The names a sandbox sends are not trusted: nothing is written outside the
//! requested place, and no link there is followed.

use std::ffi::OsStr;
use std::fs::{FileType, OpenOptions};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use coracle::{Error, Kind, Links, Result};
use coracle_engine::files::{FileKind, Node, Tree};
use rustix::fs::OFlags;

use super::ending::Watched;
use super::local::{Root, Trust, failed};
use super::{Copied, Copy, below, tree};

/// Copies a file or a directory. A target that ends in a slash is a directory, which is made if it does not exist.
pub fn copy(copy: &mut Copy<'_>, from: &[u8], to: &Path) -> Result<Copied> {
    let is_made = to.as_os_str().as_bytes().ends_with(b"/") && !to.exists();
    if is_made {
        std::fs::create_dir(to).map_err(failed("make", to))?;
    }
    copy_to(copy, from, to).inspect_err(|_| {
        if is_made {
            let _ = std::fs::remove_dir(to);
        }
    })
}

fn copy_to(copy: &mut Copy<'_>, from: &[u8], to: &Path) -> Result<Copied> {
    let entry = copy.attached.stat(from)?;
    let target = Target::of(from, to)?;
    // The guest follows it inside the sandbox, so that a link named on the command line means its target.
    let behind = match entry.kind {
        FileKind::Symlink => {
            copy.attached.stat(&below(from, b".")).map_or(FileKind::File, |entry| entry.kind)
        }
        kind => kind,
    };
    if behind == FileKind::Dir {
        return copy_tree(copy, from, &target);
    }
    if entry.kind == FileKind::Other {
        let skipped = tree::keep_one(from, entry.kind, 0, copy.special)?;
        return Ok(Copied { skipped, ..Copied::default() });
    }
    copy_file(copy, from, &target.path)
}

/// The target of a copy.
struct Target {
    path: PathBuf,
    trust: Trust,
}

impl Target {
    /// A copy onto a directory goes inside it, under its own name.
    fn of(from: &[u8], to: &Path) -> Result<Self> {
        let named = || Ok(Self { path: to.to_owned(), trust: Trust::Named });
        if !to.is_dir() {
            return named();
        }
        let name = from.split(|byte| *byte == b'/').rfind(|name| !matches!(*name, b"" | b"."));
        match name {
            Some(b"..") => Err(Error::invalid(
                "from",
                "ends in `..`, so the copy would have no name; name the directory itself",
            )),
            Some(name) => Ok(Self { path: to.join(OsStr::from_bytes(name)), trust: Trust::Derived }),
            // The workspace or the root itself: its contents go straight in.
            None => named(),
        }
    }
}

fn copy_file(copy: &mut Copy<'_>, from: &[u8], to: &Path) -> Result<Copied> {
    let mut copied = Copied::default();
    let there = to.symlink_metadata().ok().map(|metadata| metadata.file_type());
    if there.is_some_and(|there| there.is_fifo() || there.is_char_device()) {
        let no_links = OFlags::NOFOLLOW.bits() as i32;
        let opened = OpenOptions::new().write(true).custom_flags(no_links).open(to);
        let mut stream = opened.map_err(failed("write", to))?;
        copied.count(copy.attached.read_file(from, &mut stream)?);
        return Ok(copied);
    }
    check_replaceable(to, there)?;
    let (root, name) = Root::around(to)?;
    copy.ending.catch()?;
    let bytes = root.write_file(&name, &mut |file| {
        let original = copy.attached.copy_file(from, Links::Follow, &mut Watched::new(file, copy.ending))?;
        // The mode of the file the bytes come from: a link may have led to it.
        let mode = original.mode.unwrap_or(0);
        copied.skipped = tree::keep_one(from, FileKind::File, mode, copy.special)?;
        Ok(original)
    })?;
    copied.count(bytes);
    Ok(copied)
}

fn check_replaceable(to: &Path, there: Option<FileType>) -> Result<()> {
    let what = match there {
        None => return Ok(()),
        Some(there) if there.is_file() => return Ok(()),
        Some(there) if there.is_symlink() => "link, and is not written through",
        Some(there) if there.is_dir() => "directory",
        Some(_) => "special file",
    };
    let message = format!("could not write `{}`: it is a {what}", to.display());
    Err(Error::new(Kind::Conflict, message).hint("name another file, or remove it first"))
}

fn copy_tree(copy: &mut Copy<'_>, from: &[u8], to: &Target) -> Result<Copied> {
    let mut tree = copy.attached.tree(from)?;
    let skipped = tree::keep(&mut tree, copy.special)?;
    copy.ending.catch()?;
    let copied = match to.path.symlink_metadata() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let (around, name) = Root::around(&to.path)?;
            let stage = around.stage(&name)?;
            let copied = fill(copy, from, &tree, (&stage.root, &|node| Some(node.path.clone())))?;
            finish(&tree, &stage.root)?;
            stage.root.finish(&tree.root)?;
            stage.commit()?;
            copied
        }
        Err(error) => return Err(failed("look at", &to.path)(error)),
        Ok(_) => {
            let root = Root::open(&to.path, to.trust)?;
            let merge = tree::fit(&tree, &|path| root.find(path))?;
            let stages = root.stages(&merge)?;
            let copied = fill(copy, from, &tree, (&root, &|node| merge.staged(node)))?;
            stages.commit()?;
            finish(&tree, &root)?;
            copied
        }
    };
    Ok(Copied { skipped, ..copied })
}

/// Where the nodes of a tree are written; `None` for those that are not.
type Places<'a> = (&'a Root, &'a dyn Fn(&Node) -> Option<Vec<u8>>);

fn fill(copy: &mut Copy<'_>, from: &[u8], tree: &Tree, (to, place): Places<'_>) -> Result<Copied> {
    let mut copied = Copied::default();
    for node in &tree.nodes {
        copy.ending.check()?;
        let Some(path) = place(node) else { continue };
        match node.kind {
            FileKind::Dir => to.make_directory(&path)?,
            FileKind::Symlink => to.make_link(&path, node)?,
            FileKind::File | FileKind::Other => {
                let source = below(from, &node.path);
                let mut fetch = |file: &mut std::fs::File| {
                    copy.attached.copy_file(
                        &source,
                        Links::Below(from.len()),
                        &mut Watched::new(file, copy.ending),
                    )
                };
                copied.count(to.write_file(&path, &mut fetch)?);
            }
        }
    }
    Ok(copied)
}

/// Sets permissions and times of directories from the inside out: a change in a directory changes its time, and its
/// permissions may end access.
fn finish(tree: &Tree, to: &Root) -> Result<()> {
    let mut directories = tree.nodes.iter().rev().filter(|node| node.kind == FileKind::Dir);
    directories.try_for_each(|node| to.finish(node))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_contents_of_the_workspace_go_straight_in() {
        let here = tempfile::tempdir().expect("a directory can be made");
        let to = |from| Target::of(from, here.path()).map(|target| target.path);

        assert_eq!(to(b".").expect("a target"), here.path());
        assert_eq!(to(b"/a/b/").expect("a target"), here.path().join("b"));
        assert!(to(b"a/..").is_err());
    }
}
