//! Which files go when there are too many: those of whoever has most, so that nobody's output goes for another's.

use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;

use super::OF;

/// What all files together may take: many times what one sandbox's can, little on any disk.
const TOTAL_MAX: u64 = 128 << 20;
/// How many there may be: each close looks at all of them.
const FILES_MAX: usize = 512;

/// A file of somebody's.
#[derive(Debug)]
pub(super) struct Held {
    path: PathBuf,
    /// The tenant; nothing for the home's own people.
    owner: Option<String>,
    bytes: u64,
}

impl Held {
    pub fn new(path: PathBuf, bytes: u64) -> Self {
        let name = path.file_stem().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        Self { owner: name.split_once(OF).map(|(_, tenant)| tenant.to_owned()), path, bytes }
    }
}

/// One owner's files, the oldest first, and what they take.
#[derive(Debug, Default)]
struct Shelf {
    files: VecDeque<(PathBuf, u64)>,
    bytes: u64,
}

/// Returns what has to go; `files` are given oldest first.
pub(super) fn surplus(files: Vec<Held>) -> Vec<PathBuf> {
    let (mut total, mut count) = (files.iter().map(|held| held.bytes).sum::<u64>(), files.len());
    let mut shelves: BTreeMap<_, Shelf> = BTreeMap::new();
    for held in files {
        let shelf = shelves.entry(held.owner).or_default();
        shelf.bytes += held.bytes;
        shelf.files.push_back((held.path, held.bytes));
    }
    let mut gone = Vec::new();
    while total > TOTAL_MAX || count > FILES_MAX {
        let most = |shelf: &Shelf| if total > TOTAL_MAX { shelf.bytes } else { shelf.files.len() as u64 };
        let Some(fullest) = shelves.values_mut().max_by_key(|shelf| most(shelf)) else { break };
        let Some((path, bytes)) = fullest.files.pop_front() else { break };
        fullest.bytes -= bytes;
        total -= bytes;
        count -= 1;
        gone.push(path);
    }
    gone
}
