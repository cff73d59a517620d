//! From here into a sandbox.

use std::collections::HashMap;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use coracle::{Depth, Error, FileEntry, Kind, Links, NewFile, Result};
use coracle_engine::Attached;
use coracle_engine::files::{FileKind, Tree};

use super::local::{Root, Trust, failed};
use super::tree::{self, Special};
use super::{Copied, below};

/// Longest path a sandbox takes.
const PATH_MAX: usize = 4095;

/// Copies a file or a directory.
pub fn copy(attached: &mut Attached, from: &Path, to: &[u8], special: Special) -> Result<Copied> {
    // A link named on the command line means what it leads to.
    let metadata = from.metadata().map_err(failed("read", from))?;
    let target = target(attached, from, to)?;
    if metadata.is_dir() {
        return copy_tree(attached, &Root::open(from, Trust::Named)?, &target, special);
    }
    let kind = if metadata.is_file() { FileKind::File } else { FileKind::Other };
    let skipped = tree::keep_one(from.as_os_str().as_bytes(), kind, metadata.mode(), special)?;
    let mut copied = Copied { skipped, ..Copied::default() };
    if kind == FileKind::Other {
        return Ok(copied);
    }
    let resolved = from.canonicalize().map_err(failed("read", from))?;
    let (root, name) = Root::around(&resolved)?;
    copied.count(copy_file(attached, (&root, &name), &target, Links::Follow)?);
    Ok(copied)
}

/// What is copied onto a directory goes inside it, under its own name.
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

/// Returns what has a name in the sandbox, if anything has.
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

/// Copies one file; returns how long it is.
fn copy_file(attached: &mut Attached, (root, path): (&Root, &[u8]), to: &[u8], links: Links) -> Result<u64> {
    let (mut file, node) = root.read(path)?;
    let written =
        NewFile { mode: Some(node.mode & 0o1777), mtime: Some(node.mtime), links, ..NewFile::at(to) };
    let mut source = Counted { source: &mut file, bytes: 0 };
    attached.write_file(&written, &mut source)?;
    Ok(source.bytes)
}

fn copy_tree(attached: &mut Attached, from: &Root, to: &[u8], special: Special) -> Result<Copied> {
    let mut tree = from.scan()?;
    let skipped = tree::keep(&mut tree, special)?;
    let copied = match there(attached, to)? {
        None => fill_new(attached, from, &tree, to)?,
        Some(_) => {
            let existing: HashMap<_, _> =
                attached.tree(to)?.nodes.into_iter().map(|node| (node.path, node.kind)).collect();
            tree::check_fits(&tree.nodes, &|path| Ok(existing.get(path).copied()))?;
            fill(attached, from, &tree, to)?
        }
    };
    Ok(Copied { skipped, ..copied })
}

/// Fills a directory beside its name, which it has when all is in it.
fn fill_new(attached: &mut Attached, from: &Root, tree: &Tree, to: &[u8]) -> Result<Copied> {
    let stage = stage(to)?;
    check_lengths(tree, &stage)?;
    let filled = attached.make_directory(&stage).and_then(|()| {
        let copied = fill(attached, from, tree, &stage)?;
        attached.finish_directory(&stage, tree.root.mode, tree.root.mtime)?;
        attached.rename(&stage, to).map(|()| copied)
    });
    if filled.is_err() {
        // What went wrong is worth more than what is left of it.
        let _ = attached.delete(&stage, Depth::Tree);
    }
    filled
}

/// Returns where a directory is filled before it has its name.
fn stage(to: &[u8]) -> Result<Vec<u8>> {
    let mut random = [0; 8];
    getrandom::fill(&mut random)
        .map_err(|error| Error::internal("could not draw a number", std::io::Error::other(error)))?;
    let name = format!(".coracle-{:016x}", u64::from_ne_bytes(random));
    let to = to.strip_suffix(b"/").unwrap_or(to);
    Ok(match to.iter().rposition(|byte| *byte == b'/') {
        Some(slash) => [&to[..=slash], name.as_bytes()].concat(),
        None => name.into_bytes(),
    })
}

fn check_lengths(tree: &Tree, stage: &[u8]) -> Result<()> {
    match tree.nodes.iter().find(|node| stage.len() + 1 + node.path.len() > PATH_MAX) {
        None => Ok(()),
        Some(node) => {
            let path = String::from_utf8_lossy(&node.path);
            Err(Error::invalid("from", format!("holds `{path}`, whose path is too long for a sandbox")))
        }
    }
}

fn fill(attached: &mut Attached, from: &Root, tree: &Tree, to: &[u8]) -> Result<Copied> {
    let mut copied = Copied::default();
    for node in &tree.nodes {
        let path = below(to, &node.path);
        match node.kind {
            FileKind::Dir => attached.make_directory(&path)?,
            FileKind::Symlink => attached.make_link(&path, &node.target, node.mtime)?,
            FileKind::File | FileKind::Other => {
                copied.count(copy_file(attached, (from, &node.path), &path, Links::Keep)?);
            }
        }
    }
    // From the inside out: what is done to a directory's contents changes its time, and its permissions may end access.
    for node in tree.nodes.iter().rev().filter(|node| node.kind == FileKind::Dir) {
        attached.finish_directory(&below(to, &node.path), node.mode, node.mtime)?;
    }
    Ok(copied)
}

/// Counts what is read.
struct Counted<'a> {
    source: &'a mut std::fs::File,
    bytes: u64,
}

impl std::io::Read for Counted<'_> {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        let count = self.source.read(into)?;
        self.bytes += count as u64;
        Ok(count)
    }
}
