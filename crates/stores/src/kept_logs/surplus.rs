//! Chooses which files of kept logs to remove when there are too many: those of the owner who has most, so that nobody
//! loses output to another.

use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;

use super::OF;

/// What all files together may take: many times what one sandbox's can, little on any disk.
const TOTAL_MAX: u64 = 128 << 20;
/// How many there may be: each close looks at all of them.
const FILES_MAX: usize = 512;

/// A file of kept logs.
#[derive(Debug)]
pub(super) struct KeptFile {
    path: PathBuf,
    /// The tenant; nothing for the home's own people.
    owner: Option<String>,
    bytes: u64,
}

impl KeptFile {
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

/// Returns the files to remove; `files` are given oldest first.
pub(super) fn surplus(files: Vec<KeptFile>) -> Vec<PathBuf> {
    let (mut total, mut count) = (files.iter().map(|file| file.bytes).sum::<u64>(), files.len());
    let mut shelves: BTreeMap<_, Shelf> = BTreeMap::new();
    for file in files {
        let shelf = shelves.entry(file.owner).or_default();
        shelf.bytes += file.bytes;
        shelf.files.push_back((file.path, file.bytes));
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
