//! Copies from this machine into a sandbox.

use std::collections::HashMap;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use coracle::{Depth, Error, FileEntry, Kind, Links, NewFile, Result};
use coracle_engine::Attached;
use coracle_engine::files::{FileKind, Node, Tree};

use super::ending::Watched;
use super::local::{Root, Trust, failed};
use super::source::Source;
use super::tree::Merge;
use super::{Copied, Copy, below, temporary_name, tree};

/// The longest path a sandbox takes.
const PATH_MAX: usize = 4095;

/// Copies a file or a directory.
pub fn copy(copy: &mut Copy<'_>, from: &Path, to: &[u8]) -> Result<Copied> {
    // A link named on the command line means its target.
    let metadata = from.metadata().map_err(failed("read", from))?;
    let target = target(&mut copy.attached, from, to)?;
    copy.ending.catch()?;
    if metadata.is_dir() {
        return copy_tree(copy, &Root::open(from, Trust::Named)?, &target);
    }
    let kind = if metadata.is_file() { FileKind::File } else { FileKind::Other };
    let skipped = tree::keep_one(from.as_os_str().as_bytes(), kind, metadata.mode(), copy.special)?;
    let mut copied = Copied { skipped, ..Copied::default() };
    if kind == FileKind::Other {
        return Ok(copied);
    }
    let resolved = from.canonicalize().map_err(failed("read", from))?;
    let (root, name) = Root::around(&resolved)?;
    copied.count(copy_file(copy, (&root, &name), &target, Links::Follow)?);
    Ok(copied)
}

/// A copy onto a directory goes inside it, under its own name.
fn target(attached: &mut Attached, from: &Path, to: &[u8]) -> Result<Vec<u8>> {
    let inside = match there(attached, to)? {
        Some(FileKind::Dir) => true,
        Some(FileKind::Symlink) => there(attached, &below(to, b"."))? == Some(FileKind::Dir),
        Some(_) => false,
        None => to.ends_with(b"/"),
    };
    if !inside {
        return Ok(to.to_vec());
    }
    // `..` and `/` have no name of their own until they are resolved.
    let resolved = from.canonicalize().map_err(failed("read", from))?;
    let name = resolved.file_name().ok_or_else(|| Error::invalid("from", "has no name"))?;
    Ok(below(to, name.as_bytes()))
}

/// Returns the kind of a file in the sandbox, if it exists.
fn there(attached: &mut Attached, path: &[u8]) -> Result<Option<FileKind>> {
    let is_absent = |error: &Error| {
        let broken = error.details.get("errno").is_some_and(|errno| errno == "ENOTDIR" || errno == "EXDEV");
        error.kind == Kind::NotFound || (broken && path.ends_with(b"/."))
    };
    match attached.stat(path) {
        Ok(FileEntry { kind, .. }) => Ok(Some(kind)),
        Err(error) if is_absent(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Copies one file as it was when it was opened; returns its length.
fn copy_file(copy: &mut Copy<'_>, (root, path): (&Root, &[u8]), to: &[u8], links: Links) -> Result<u64> {
    let (file, node) = root.read(path)?;
    let mut file = Source::new(file).map_err(root.failed("read", path))?;
    let written =
        NewFile { mode: Some(node.mode & 0o1777), mtime: Some(node.mtime), links, ..NewFile::at(to) };
    let mut source = Watched::new(&mut file, copy.ending);
    let copied = copy.attached.write_file(&written, &mut source);
    let bytes = source.bytes;
    file.expect_whole(&root.shown(path))?;
    copied.map(|_| bytes)
}

fn copy_tree(copy: &mut Copy<'_>, from: &Root, to: &[u8]) -> Result<Copied> {
    let mut tree = from.scan()?;
    let skipped = tree::keep(&mut tree, copy.special)?;
    let copied = match there(&mut copy.attached, to)? {
        None => fill_new(copy, from, &tree, to)?,
        Some(_) => merge(copy, from, &tree, to)?,
    };
    Ok(Copied { skipped, ..copied })
}

/// Fills a directory under a temporary name, and renames it when it is complete.
fn fill_new(copy: &mut Copy<'_>, from: &Root, tree: &Tree, to: &[u8]) -> Result<Copied> {
    let stage = stage(to)?;
    let place = |node: &Node| Some(below(&stage, &node.path));
    check_lengths(tree, &place)?;
    // Other processes in the sandbox may replace the stage by a link, too.
    let links = Links::Below(stage.iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1));
    let filled = copy.attached.make_directory(&stage, links).and_then(|()| {
        let copied = fill(copy, from, tree, (&place, links))?;
        finish(&mut copy.attached, tree, &stage, links)?;
        copy.attached.finish_directory(&stage, tree.root.mode, tree.root.mtime, links)?;
        copy.attached.rename(&stage, to).map(|()| copied)
    });
    if filled.is_err() {
        // The first error is more useful than one about its leftovers.
        let _ = copy.attached.delete(&stage, Depth::Tree);
    }
    filled
}

/// Returns the temporary path of a directory that is being filled.
fn stage(to: &[u8]) -> Result<Vec<u8>> {
    let name = temporary_name()?;
    let to = to.strip_suffix(b"/").unwrap_or(to);
    Ok(match to.iter().rposition(|byte| *byte == b'/') {
        Some(slash) => [&to[..=slash], name.as_bytes()].concat(),
        None => name.into_bytes(),
    })
}

/// Copies a tree into an existing directory.
fn merge(copy: &mut Copy<'_>, from: &Root, tree: &Tree, to: &[u8]) -> Result<Copied> {
    let there = copy.attached.tree(to)?;
    let there: HashMap<_, _> =
        there.nodes.into_iter().chain([there.root]).map(|node| (node.path.clone(), node)).collect();
    let merge = tree::fit(tree, &|path| Ok(there.get(path).cloned()))?;
    let place = |node: &Node| merge.staged(node).map(|path| below(to, &path));
    check_lengths(tree, &place)?;
    let staged = make_stages(&mut copy.attached, &merge, to)
        .and_then(|()| fill(copy, from, tree, (&place, Links::Below(to.len()))));
    let attached = &mut copy.attached;
    let committed = staged.and_then(|copied| {
        merge
            .commit(|from, name| attached.replace(&below(to, from), &below(to, name), Links::Below(to.len())))
            .map(|()| copied)
    });
    remove_stages(attached, &merge, to);
    let copied = committed.inspect_err(|error| restore_times(attached, &merge, to, error))?;
    finish(attached, tree, to, Links::Below(to.len()))?;
    Ok(copied)
}

fn make_stages(attached: &mut Attached, merge: &Merge<'_>, to: &[u8]) -> Result<()> {
    merge
        .receiving
        .iter()
        .try_for_each(|node| attached.make_directory(&below(to, &merge.stage(node)), Links::Below(to.len())))
}

fn remove_stages(attached: &mut Attached, merge: &Merge<'_>, to: &[u8]) {
    for directory in &merge.receiving {
        // The first error is more useful than one about its leftovers.
        let _ = attached.delete(&below(to, &merge.stage(directory)), Depth::Tree);
    }
}

/// Restores the times that directories had before there were stages in them, unless something else has changed in
/// them.
fn restore_times(attached: &mut Attached, merge: &Merge<'_>, to: &[u8], error: &Error) {
    if error.details.contains_key("copied") {
        return;
    }
    // Setting times also sets permissions, and would lose the set-user-id and set-group-id bits.
    for directory in merge.receiving.iter().filter(|directory| directory.mode & !0o1777 == 0) {
        let _ = attached.finish_directory(
            &below(to, &directory.path),
            directory.mode,
            directory.mtime,
            Links::Below(to.len()),
        );
    }
}

fn check_lengths(tree: &Tree, place: &dyn Fn(&Node) -> Option<Vec<u8>>) -> Result<()> {
    let is_too_long = |node: &&Node| place(node).is_some_and(|path| path.len() > PATH_MAX);
    match tree.nodes.iter().find(is_too_long) {
        None => Ok(()),
        Some(node) => {
            let path = String::from_utf8_lossy(&node.path);
            Err(Error::invalid("from", format!("holds `{path}`, whose path is too long for a sandbox")))
        }
    }
}

/// Writes every node that has a place.
fn fill(
    copy: &mut Copy<'_>,
    from: &Root,
    tree: &Tree,
    (place, links): (impl Fn(&Node) -> Option<Vec<u8>>, Links),
) -> Result<Copied> {
    let mut copied = Copied::default();
    for node in &tree.nodes {
        copy.ending.check()?;
        let Some(path) = place(node) else { continue };
        match node.kind {
            FileKind::Dir => copy.attached.make_directory(&path, links)?,
            FileKind::Symlink => copy.attached.make_link(&path, &node.target, node.mtime, links)?,
            FileKind::File | FileKind::Other => {
                copied.count(copy_file(copy, (from, &node.path), &path, links)?);
            }
        }
    }
    Ok(copied)
}

/// Sets permissions and times of directories from the inside out: a change in a directory changes its time, and its
/// permissions may end access.
fn finish(attached: &mut Attached, tree: &Tree, to: &[u8], links: Links) -> Result<()> {
    let mut directories = tree.nodes.iter().rev().filter(|node| node.kind == FileKind::Dir);
    directories
        .try_for_each(|node| attached.finish_directory(&below(to, &node.path), node.mode, node.mtime, links))
}
