//! All that is below a directory, as exactly as a copy needs it.

use coracle_core::{Error, Kind, Result};
use coracle_wire::{Entry, Time};

use super::{ENTRIES_MAX, FileKind};
use crate::access::gate::Inside;

/// A directory and all that is below it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tree {
    /// The directory itself, without a path.
    pub root: Node,
    /// Directories come before what is in them.
    pub nodes: Vec<Node>,
}

/// One thing below a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// Relative to the directory.
    pub path: Vec<u8>,
    pub kind: FileKind,
    pub mode: u32,
    pub mtime: Time,
    /// Where a symlink leads.
    pub target: Vec<u8>,
}

/// Returns when a file was changed, as far as its guest tells.
pub(super) fn mtime(entry: &Entry) -> Option<Time> {
    entry.mtime_nanos.map(|nanos| Time { seconds: entry.mtime, nanos })
}

/// Lists a whole tree. What cannot be listed is an error.
pub(crate) fn list(inside: &mut Inside, directory: &[u8]) -> Result<Tree> {
    expect_trees(inside)?;
    // Behind the link, where it is one.
    let root = inside.guest.stat(&[directory, b"/."].concat())?;
    let listing = inside.guest.list_tree(directory, ENTRIES_MAX)?;
    if listing.truncated {
        let many =
            format!("the directory holds more than {ENTRIES_MAX} files, too many to be copied at once");
        return Err(Error::new(Kind::LimitExceeded, many).hint("copy its subdirectories one by one"));
    }
    let nodes = listing.entries.into_iter().map(|entry| node(entry, directory)).collect::<Result<_>>()?;
    Ok(Tree { root: described(root, Vec::new()), nodes })
}

/// Refuses where the guest is too old to make and list trees.
pub(crate) fn expect_trees(inside: &Inside) -> Result<()> {
    match inside.guest.knows_users() {
        true => Ok(()),
        false => Err(Error::new(Kind::Unsupported, "this sandbox cannot have directories copied")
            .hint("it was started by an older coracle; open a new one, or copy file by file")),
    }
}

/// Refuses what a guest could only say to have files written elsewhere.
fn node(entry: Entry, directory: &[u8]) -> Result<Node> {
    let strange = || {
        let path = String::from_utf8_lossy(&entry.path);
        Error::new(Kind::Internal, format!("the sandbox listed `{path}`, which is not in the directory"))
    };
    let prefix = directory.strip_suffix(b"/").unwrap_or(directory);
    let path = match prefix {
        b"." => &entry.path,
        prefix => {
            entry.path.strip_prefix(prefix).and_then(|below| below.strip_prefix(b"/")).ok_or_else(strange)?
        }
    };
    let odd = |name: &[u8]| matches!(name, b"" | b"." | b"..") || name.contains(&0);
    if path.split(|byte| *byte == b'/').any(odd) {
        return Err(strange());
    }
    let path = path.to_vec();
    Ok(described(entry, path))
}

fn described(entry: Entry, path: Vec<u8>) -> Node {
    let (kind, mode, mtime) = (entry.kind.into(), entry.mode, mtime(&entry).unwrap_or_default());
    Node { path, kind, mode, mtime, target: entry.target.unwrap_or_default() }
}

#[cfg(test)]
mod tests {
    use coracle_wire::EntryKind;

    use super::*;

    fn path_of(listed: &str, directory: &str) -> Option<Vec<u8>> {
        let entry = Entry {
            path: listed.into(),
            kind: EntryKind::File,
            size: 0,
            mode: 0o644,
            mtime: 0,
            uid: 0,
            gid: 0,
            mtime_nanos: Some(0),
            target: None,
        };
        node(entry, directory.as_bytes()).ok().map(|node| node.path)
    }

    #[test]
    fn names_are_relative_to_the_directory() {
        assert_eq!(path_of("d/a/b", "d"), Some(b"a/b".to_vec()));
        assert_eq!(path_of("/d/a", "/d/"), Some(b"a".to_vec()));
        assert_eq!(path_of("a", "."), Some(b"a".to_vec()));
        assert_eq!(path_of("/etc", "/"), Some(b"etc".to_vec()));
    }

    #[test]
    fn a_name_that_leads_away_is_refused() {
        for listed in ["d/../x", "other/x", "d", "d/", "d//x", "d/./x", "/d/x"] {
            assert_eq!(path_of(listed, "d"), None, "{listed}");
        }
    }
}
