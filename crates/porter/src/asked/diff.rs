//! What differs between two trees, file by file, and line by line where there is room.

use std::collections::BTreeSet;

use coracle_porter::{Answer, Failed, FileChange, FileStatus, Why};
use gix_diff::blob::{Algorithm, BasicLineDiffPrinter, Diff, InternedInput, UnifiedDiffConfig};
use gix_hash::ObjectId;
use gix_object::tree::EntryKind;

use super::objects::{Entry, Objects};

/// Deeper than any tree of a person; each level costs stack.
const DEPTH_MAX: usize = 256;
/// The largest file whose lines are compared.
const TEXT_MAX: u64 = 4 << 20;
/// How far git looks for a byte that text does not have.
const TEXT_PROBE: usize = 8000;
const FILES_MAX: usize = 100_000;

/// Compares two commits or trees.
pub fn diff(
    objects: &Objects,
    old: Option<&str>,
    new: &str,
    files_max: usize,
    text_max: usize,
) -> Result<Answer, Failed> {
    let old = old.map(|id| objects.id(id)).transpose()?.map(|id| objects.tree_of(&id)).transpose()?;
    let new = objects.tree_of(&objects.id(new)?)?;
    let mut compare =
        Compare { objects, files: Vec::new(), most: files_max.min(FILES_MAX), more: false, path: Vec::new() };
    compare.trees(old, Some(new), 0)?;
    let Compare { mut files, more, .. } = compare;
    let mut room = text_max;
    for file in files.iter_mut().take_while(|_| text_max > 0) {
        compare_lines(objects, file, &mut room)?;
    }
    Ok(Answer::Diff { files, more })
}

struct Compare<'a> {
    objects: &'a Objects,
    files: Vec<FileChange>,
    most: usize,
    more: bool,
    path: Vec<u8>,
}

impl Compare<'_> {
    fn trees(&mut self, old: Option<ObjectId>, new: Option<ObjectId>, depth: usize) -> Result<(), Failed> {
        if depth > DEPTH_MAX {
            return Err(Failed::new(Why::Refused, "a tree is too deep"));
        }
        if old == new {
            return Ok(());
        }
        let read = |id: Option<ObjectId>| id.map_or(Ok(Default::default()), |id| self.objects.tree(&id));
        let (old, new) = (read(old)?, read(new)?);
        let names: BTreeSet<&Vec<u8>> = old.keys().chain(new.keys()).collect();
        for name in names {
            if self.more {
                return Ok(());
            }
            let before = self.path.len();
            if before > 0 {
                self.path.push(b'/');
            }
            self.path.extend(name);
            self.entries(old.get(name).copied(), new.get(name).copied(), depth)?;
            self.path.truncate(before);
        }
        Ok(())
    }

    fn entries(&mut self, old: Option<Entry>, new: Option<Entry>, depth: usize) -> Result<(), Failed> {
        let tree =
            |entry: Option<Entry>| entry.filter(|entry| entry.kind == EntryKind::Tree).map(|entry| entry.id);
        let file = |entry: Option<Entry>| entry.filter(|entry| entry.kind != EntryKind::Tree);
        if tree(old).is_some() || tree(new).is_some() {
            self.trees(tree(old), tree(new), depth + 1)?;
        }
        match (file(old), file(new)) {
            (None, None) => Ok(()),
            (one, other) if one == other => Ok(()),
            (old, new) => {
                self.push(old, new);
                Ok(())
            }
        }
    }

    fn push(&mut self, old: Option<Entry>, new: Option<Entry>) {
        if self.files.len() >= self.most {
            self.more = true;
            return;
        }
        let status = match (old, new) {
            (None, _) => FileStatus::Added,
            (_, None) => FileStatus::Deleted,
            (Some(old), Some(new)) if is_plain(old) != is_plain(new) => FileStatus::Retyped,
            (Some(_), Some(_)) => FileStatus::Modified,
        };
        self.files.push(FileChange {
            path: self.path.clone(),
            status,
            old_mode: old.map_or(0, |entry| entry.mode),
            new_mode: new.map_or(0, |entry| entry.mode),
            old_id: old.map(|entry| entry.id.to_string()),
            new_id: new.map(|entry| entry.id.to_string()),
            added: None,
            removed: None,
            text: None,
        });
    }
}

fn is_plain(entry: Entry) -> bool {
    matches!(entry.kind, EntryKind::Blob | EntryKind::BlobExecutable)
}

/// Counts the lines of a file that differ, and keeps them if there is room.
fn compare_lines(objects: &Objects, file: &mut FileChange, room: &mut usize) -> Result<(), Failed> {
    const SUBMODULE: u32 = 0o160_000;
    if [file.old_mode, file.new_mode].contains(&SUBMODULE) {
        return Ok(());
    }
    let (Some(old), Some(new)) =
        (text_of(objects, file.old_id.as_deref())?, text_of(objects, file.new_id.as_deref())?)
    else {
        return Ok(());
    };
    let (old, new) = (String::from_utf8_lossy(&old), String::from_utf8_lossy(&new));
    let input = InternedInput::new(&*old, &*new);
    let mut diff = Diff::compute(Algorithm::Histogram, &input);
    diff.postprocess_lines(&input);
    file.added = Some(u64::from(diff.count_additions()));
    file.removed = Some(u64::from(diff.count_removals()));
    let text = diff
        .unified_diff(&BasicLineDiffPrinter(&input.interner), UnifiedDiffConfig::default(), &input)
        .to_string();
    if text.len() <= *room {
        *room -= text.len();
        file.text = Some(text.into_bytes());
    }
    Ok(())
}

/// Returns a file, or nothing if it is too large or no text. One that is not there is empty.
fn text_of(objects: &Objects, id: Option<&str>) -> Result<Option<Vec<u8>>, Failed> {
    let Some(id) = id else { return Ok(Some(Vec::new())) };
    let id = objects.id(id)?;
    if objects.size(&id)? > TEXT_MAX {
        return Ok(None);
    }
    let mut buffer = Vec::new();
    let (_, data) = objects.read(&id, &mut buffer)?;
    let binary = data[..data.len().min(TEXT_PROBE)].contains(&0);
    Ok((!binary).then(|| data.to_vec()))
}
