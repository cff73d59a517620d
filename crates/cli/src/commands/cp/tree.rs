//! Checks a tree before any of it is copied: whether all of it can be kept, and whether it fits the target.

use std::collections::{HashMap, HashSet};

use coracle::{Error, Kind, Result};
use coracle_engine::files::{FileKind, Node, Tree};

/// The set-user-id and set-group-id bits. They are never copied: a copy must not grant rights, on either side.
const LENDING: u32 = 0o6000;

/// What to do with files that cannot be kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Special {
    /// Fail.
    Refuse,
    /// Leave them out, with a note.
    Skip,
}

/// Removes from a tree what cannot be kept. Returns descriptions of it.
pub fn keep(tree: &mut Tree, special: Special) -> Result<Vec<String>> {
    check_parents(&tree.nodes)?;
    let all = std::iter::once(&tree.root).chain(&tree.nodes);
    let lost = all.filter_map(|node| lost(&node.path, node.kind, node.mode)).collect();
    tree.nodes.retain(|node| node.kind != FileKind::Other);
    std::iter::once(&mut tree.root).chain(&mut tree.nodes).for_each(|node| node.mode &= !LENDING);
    permit(lost, special)
}

/// Does the same for a single file.
pub fn keep_one(path: &[u8], kind: FileKind, mode: u32, special: Special) -> Result<Vec<String>> {
    permit(lost(path, kind, mode).into_iter().collect(), special)
}

/// Describes what of a file cannot be kept.
fn lost(path: &[u8], kind: FileKind, mode: u32) -> Option<String> {
    let shown = match path {
        b"" => "the directory".to_owned(),
        path => format!("`{}`", String::from_utf8_lossy(path)),
    };
    match kind {
        FileKind::Other => Some(format!("{shown} is neither a file nor a directory nor a link")),
        FileKind::File | FileKind::Dir if mode & LENDING != 0 => {
            Some(format!("{shown} has the set-user-id or set-group-id bit"))
        }
        FileKind::File | FileKind::Dir | FileKind::Symlink => None,
    }
}

fn permit(mut lost: Vec<String>, special: Special) -> Result<Vec<String>> {
    lost.sort();
    match (special, lost.first()) {
        (Special::Refuse, Some(first)) => Err(cannot_be_kept(first, lost.len())),
        _ => Ok(lost),
    }
}

fn cannot_be_kept(first: &str, all: usize) -> Error {
    let more = if all > 1 { format!(" ({} more like it)", all - 1) } else { String::new() };
    Error::new(Kind::Invalid, format!("could not keep everything: {first}{more}"))
        .hint("`--skip-special` leaves out what cannot be kept; nothing was copied")
}

/// Refuses a listing that has an entry below a file or a link. A hostile guest could use one to have files written
/// outside the target.
fn check_parents(nodes: &[Node]) -> Result<()> {
    let mut directories = HashSet::from([b"".as_slice()]);
    for node in nodes {
        let parent = parent(&node.path);
        if !directories.contains(parent) {
            let path = String::from_utf8_lossy(&node.path);
            return Err(Error::new(
                Kind::Internal,
                format!("`{path}` is listed below something that is not a directory"),
            ));
        }
        if node.kind == FileKind::Dir {
            directories.insert(&node.path);
        }
    }
    Ok(())
}

/// Refuses a tree that does not fit the target: a directory may replace nothing, and a file no directory. Otherwise
/// returns the merge.
pub fn fit<'a>(tree: &'a Tree, there: &dyn Fn(&[u8]) -> Result<Option<Node>>) -> Result<Merge<'a>> {
    let mut merge = Merge {
        nodes: &tree.nodes,
        new: HashSet::new(),
        receiving: Vec::new(),
        stage: super::temporary_name()?,
    };
    let mut met = HashMap::new();
    for node in &tree.nodes {
        let parent = parent(&node.path);
        // Below a directory that does not exist, nothing does.
        let found = if merge.new.contains(parent) { None } else { there(&node.path)? };
        let kind = found.as_ref().map(|found| found.kind);
        match (node.kind, kind) {
            (FileKind::Dir, None) => drop(merge.new.insert(node.path.as_slice())),
            (FileKind::Dir, Some(FileKind::Dir)) => {
                met.extend(found.map(|found| (node.path.as_slice(), found)))
            }
            (_, None) | (FileKind::File | FileKind::Symlink, Some(FileKind::File | FileKind::Symlink)) => {}
            (kind, Some(found)) => return Err(does_not_fit(node, kind, found)),
        }
    }
    let moved: HashSet<_> = merge.moved().map(|node| parent(&node.path)).collect();
    for directory in moved {
        let known = if directory.is_empty() { there(b"")? } else { met.remove(directory) };
        merge.receiving.extend(known);
    }
    Ok(merge)
}

fn does_not_fit(node: &Node, kind: FileKind, found: FileKind) -> Error {
    let (path, kind, found) = (String::from_utf8_lossy(&node.path), name(kind), name(found));
    let message = format!("could not copy the {kind} `{path}`: the target has a {found} there");
    Error::new(Kind::Conflict, message).hint("nothing was copied; move it away first")
}

/// A tree on its way into an existing directory. Everything new is written into a stage first: a directory beside the
/// final names, so that moving it out needs no space and no other rights, and crosses no mount.
#[derive(Debug)]
pub struct Merge<'a> {
    nodes: &'a [Node],
    /// Directories that do not exist yet.
    new: HashSet<&'a [u8]>,
    /// Existing directories that get something, with their present metadata.
    pub receiving: Vec<Node>,
    stage: String,
}

impl<'a> Merge<'a> {
    /// Returns the stage of a directory.
    pub fn stage(&self, directory: &Node) -> Vec<u8> {
        joined(&directory.path, self.stage.as_bytes())
    }

    /// Returns where a node is until the whole tree is complete; `None` for an existing directory.
    pub fn staged(&self, node: &Node) -> Option<Vec<u8>> {
        if self.is_there(node) {
            return None;
        }
        let mut around = parent(&node.path);
        while self.new.contains(around) {
            around = parent(around);
        }
        let rest = node.path.strip_prefix(around).unwrap_or(&node.path);
        let rest = rest.strip_prefix(b"/").unwrap_or(rest);
        Some(joined(&joined(around, self.stage.as_bytes()), rest))
    }

    /// Returns the nodes that are moved out of a stage. What is below them comes along.
    pub fn moved(&self) -> impl Iterator<Item = &'a Node> + '_ {
        self.nodes.iter().filter(|node| !self.is_there(node) && !self.new.contains(parent(&node.path)))
    }

    /// Moves everything to its final name. An error says how much has changed by then.
    pub fn commit(&self, mut rename: impl FnMut(&[u8], &[u8]) -> Result<()>) -> Result<()> {
        let mut done = Vec::new();
        for node in self.moved() {
            let from = self.staged(node).unwrap_or_default();
            rename(&from, &node.path).map_err(|error| half_done(error, &done))?;
            done.push(String::from_utf8_lossy(&node.path).into_owned());
        }
        Ok(())
    }

    fn is_there(&self, node: &Node) -> bool {
        node.kind == FileKind::Dir && !self.new.contains(node.path.as_slice())
    }
}

fn half_done(error: Error, done: &[String]) -> Error {
    match done {
        [] => error,
        done => {
            let hint = format!("copied by then, in part or whole: `{}`", done.join("`, `"));
            error.hint(hint).detail("copied", done.to_vec())
        }
    }
}

/// Appends a name to a path, which may be empty.
pub fn joined(path: &[u8], name: &[u8]) -> Vec<u8> {
    if path.is_empty() { name.to_vec() } else { super::below(path, name) }
}

fn name(kind: FileKind) -> &'static str {
    match kind {
        FileKind::File => "file",
        FileKind::Dir => "directory",
        FileKind::Symlink => "link",
        FileKind::Other => "special file",
    }
}

/// Returns the parent of a path, which may be empty.
pub fn parent(path: &[u8]) -> &[u8] {
    path.iter().rposition(|byte| *byte == b'/').map_or(b"", |slash| &path[..slash])
}

#[cfg(test)]
mod tests {
    use coracle_engine::files::Time;

    use super::*;

    fn node(path: &str, kind: FileKind, mode: u32) -> Node {
        Node { path: path.into(), kind, mode, mtime: Time::default(), target: Vec::new() }
    }

    fn tree(nodes: Vec<Node>) -> Tree {
        Tree { root: node("", FileKind::Dir, 0o755), nodes }
    }

    #[test]
    fn what_cannot_be_kept_is_refused_or_taken_out() {
        let nodes = || {
            vec![
                node("fifo", FileKind::Other, 0o644),
                node("lent", FileKind::File, 0o4755),
                node("link", FileKind::Symlink, 0o777),
            ]
        };

        let refused = keep(&mut tree(nodes()), Special::Refuse).expect_err("a pipe cannot be kept");
        let mut rest = tree(nodes());
        let lost = keep(&mut rest, Special::Skip).expect("the rest can");

        assert!(refused.message.contains("`fifo`") && refused.message.contains("1 more"), "{refused:?}");
        assert_eq!(lost.len(), 2);
        assert_eq!(rest.nodes, [node("lent", FileKind::File, 0o755), node("link", FileKind::Symlink, 0o777)]);
    }

    #[test]
    fn nothing_is_below_a_link() {
        let hostile = vec![node("a", FileKind::Symlink, 0o777), node("a/passwd", FileKind::File, 0o644)];

        assert!(keep(&mut tree(hostile), Special::Skip).is_err());
    }

    #[test]
    fn a_directory_takes_no_links_place_and_a_file_no_directorys() {
        let fits = |path, kind| fit(&tree(vec![node(path, kind, 0o755)]), &there).is_ok();

        assert!(!fits("link", FileKind::Dir) && !fits("d", FileKind::File) && !fits("d", FileKind::Symlink));
        assert!(fits("d", FileKind::Dir) && fits("link", FileKind::File) && fits("new", FileKind::Dir));
    }

    /// The contents of a target.
    fn there(path: &[u8]) -> Result<Option<Node>> {
        Ok(match path {
            b"link" => Some(node("link", FileKind::Symlink, 0o777)),
            b"" | b"d" => Some(node(&String::from_utf8_lossy(path), FileKind::Dir, 0o755)),
            b"new" | b"d/f" => None,
            path => panic!("{path:?} is below what is not there"),
        })
    }

    #[test]
    fn what_is_new_is_staged_beside_its_name_and_moved_as_a_whole() {
        let file = |path| node(path, FileKind::File, 0o644);
        let directory = |path| node(path, FileKind::Dir, 0o755);
        let tree =
            tree(vec![directory("d"), file("d/f"), directory("new"), directory("new/e"), file("new/e/f")]);

        let merge = fit(&tree, &there).expect("it fits");

        let shown = |path: Vec<u8>| String::from_utf8_lossy(&path).replace(&merge.stage, "STAGE");
        let staged: Vec<_> = tree.nodes.iter().map(|node| merge.staged(node).map(shown)).collect();
        let expected = ["d/STAGE/f", "STAGE/new", "STAGE/new/e", "STAGE/new/e/f"];
        assert_eq!(staged[0], None);
        assert_eq!(staged[1..].iter().flatten().collect::<Vec<_>>(), expected.iter().collect::<Vec<_>>());
        let moved: Vec<_> = merge.moved().map(|node| node.path.as_slice()).collect();
        assert_eq!(moved, [b"d/f".as_slice(), b"new"]);
        let mut receiving: Vec<_> = merge.receiving.iter().map(|node| node.path.as_slice()).collect();
        receiving.sort();
        assert_eq!(receiving, [b"".as_slice(), b"d"]);
    }

    #[test]
    fn a_move_that_fails_says_what_was_copied_by_then() {
        let tree = tree(vec![node("link", FileKind::File, 0o644), node("new", FileKind::File, 0o644)]);
        let merge = fit(&tree, &there).expect("it fits");

        let refuse = |to: &[u8]| if to == b"new" { Err(Error::invalid("x", "y")) } else { Ok(()) };
        let error = merge.commit(|_, to| refuse(to)).expect_err("the second one fails");

        assert_eq!(error.details["copied"][0], "link");
    }
}
