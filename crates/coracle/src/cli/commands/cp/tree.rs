//! What is known of a tree before any of it is copied: whether all of it can be kept, and whether it fits where it goes.

use std::collections::HashSet;

use coracle::{Error, Kind, Result};
use coracle_engine::files::{FileKind, Node, Tree};

/// Bits that lend rights. They are not taken along: neither here nor there may a file have them for having been copied.
const LENDING: u32 = 0o6000;

/// What becomes of what cannot be kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Special {
    /// It is an error.
    Refuse,
    /// It is left out, and said.
    Skip,
}

/// Takes out of a tree what cannot be kept. Returns what that was, in words.
pub fn keep(tree: &mut Tree, special: Special) -> Result<Vec<String>> {
    check_parents(&tree.nodes)?;
    let all = std::iter::once(&tree.root).chain(&tree.nodes);
    let lost = all.filter_map(|node| lost(&node.path, node.kind, node.mode)).collect();
    tree.nodes.retain(|node| node.kind != FileKind::Other);
    std::iter::once(&mut tree.root).chain(&mut tree.nodes).for_each(|node| node.mode &= !LENDING);
    permit(lost, special)
}

/// Says the same of a file that is copied by itself.
pub fn keep_one(path: &[u8], kind: FileKind, mode: u32, special: Special) -> Result<Vec<String>> {
    permit(lost(path, kind, mode).into_iter().collect(), special)
}

/// Says what of something cannot be kept.
fn lost(path: &[u8], kind: FileKind, mode: u32) -> Option<String> {
    let shown = match path {
        b"" => "the directory".to_owned(),
        path => format!("`{}`", String::from_utf8_lossy(path)),
    };
    match kind {
        FileKind::Other => Some(format!("{shown} is no file, directory or link")),
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

/// Refuses a tree in which something is below what is no directory. It could only be meant to be written elsewhere.
fn check_parents(nodes: &[Node]) -> Result<()> {
    let mut directories = HashSet::from([b"".as_slice()]);
    for node in nodes {
        let parent = parent(&node.path);
        if !directories.contains(parent) {
            let path = String::from_utf8_lossy(&node.path);
            return Err(Error::new(Kind::Internal, format!("`{path}` is listed below what is no directory")));
        }
        if node.kind == FileKind::Dir {
            directories.insert(&node.path);
        }
    }
    Ok(())
}

/// Refuses a tree that does not fit what is there: a directory only takes the place of none, a file never that of one.
pub fn check_fits(nodes: &[Node], there: &dyn Fn(&[u8]) -> Result<Option<FileKind>>) -> Result<()> {
    let mut absent = HashSet::new();
    for node in nodes {
        // Below what is not there, nothing is.
        let found = match absent.contains(parent(&node.path)) {
            true => None,
            false => there(&node.path)?,
        };
        match (node.kind, found) {
            (FileKind::Dir, None) => drop(absent.insert(node.path.as_slice())),
            (_, None)
            | (FileKind::Dir, Some(FileKind::Dir))
            | (FileKind::File | FileKind::Symlink, Some(FileKind::File | FileKind::Symlink)) => {}
            (kind, Some(found)) => {
                let (path, kind, found) = (String::from_utf8_lossy(&node.path), name(kind), name(found));
                let message = format!("could not copy the {kind} `{path}`: the target has a {found} there");
                return Err(
                    Error::new(Kind::Conflict, message).hint("nothing was copied; move it away first")
                );
            }
        }
    }
    Ok(())
}

fn name(kind: FileKind) -> &'static str {
    match kind {
        FileKind::File => "file",
        FileKind::Dir => "directory",
        FileKind::Symlink => "link",
        FileKind::Other => "special file",
    }
}

/// Returns the directory a path's last name is in, which may be empty.
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
        let there = |path: &[u8]| {
            Ok(match path {
                b"link" => Some(FileKind::Symlink),
                b"d" => Some(FileKind::Dir),
                b"new" => None,
                path => panic!("{path:?} is below what is not there"),
            })
        };
        let fits = |path, kind| check_fits(&[node(path, kind, 0o755)], &there).is_ok();

        assert!(!fits("link", FileKind::Dir) && !fits("d", FileKind::File) && !fits("d", FileKind::Symlink));
        assert!(fits("d", FileKind::Dir) && fits("link", FileKind::File) && fits("new", FileKind::Dir));
        let inner = [node("new", FileKind::Dir, 0o755), node("new/f", FileKind::File, 0o644)];
        assert!(check_fits(&inner, &there).is_ok());
    }
}
