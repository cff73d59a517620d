//! Writes the work tree and the index.
//!
//! The index is made from trees that anybody may have written, so each name is looked at here: the crates below trust
//! the shape of a tree.

use std::path::Path;
use std::sync::atomic::AtomicBool;

use coracle_porter::{Failed, Why};
use gix_hash::ObjectId;
use gix_index::entry::{Flags, Mode, Stat};
use gix_index::{File, State};
use gix_object::bstr::{BStr, BString, ByteSlice};
use gix_object::tree::EntryKind;
use gix_object::{Find, FindExt, TreeRefIter};
use gix_utils::progress::Discard;
use gix_validate::path::component;

use super::fetch::chain;

/// Deeper than any tree of a person; each level costs stack.
const DEPTH_MAX: usize = 256;
/// As many as a file system of a sandbox may have by default, and more.
const ENTRIES_MAX: usize = 4_000_000;
/// The longest path the kernel takes.
const PATH_MAX: usize = 4096;

/// Which names no work tree gets: those that mean `.git` on any system.
pub const NAMES: component::Options =
    component::Options { protect_windows: false, protect_hfs: true, protect_ntfs: true };

/// Writes the tree of the commit. Returns how many files were written, with how many bytes.
pub fn check_out(top: &Path, git: &Path, commit: ObjectId, threads: u32) -> Result<(u64, u64), Failed> {
    let objects = gix_odb::at(git.join("objects"), gix_hash::Kind::Sha1)
        .map_err(|error| Failed::broken("open the objects", error))?
        .into_arc()
        .map_err(|error| Failed::broken("open the objects", error))?;
    let mut buffer = Vec::new();
    let tree = objects
        .find_commit(&commit, &mut buffer)
        .map_err(|error| Failed::broken("read the commit", chain(&error)))?
        .tree();
    let mut state = State::new(gix_hash::Kind::Sha1);
    Walk { objects: &objects, state: &mut state, path: BString::default() }.walk(tree, 0)?;
    state.sort_entries();
    let files = state.entries().len() as u64;

    let filters = gix_filter::Pipeline::new(
        gix_command::Context::default(),
        gix_hash::Kind::Sha1,
        // No drivers: these are programs.
        gix_filter::pipeline::Options::default(),
    );
    let options = gix_worktree_state::checkout::Options {
        fs: gix_fs::Capabilities {
            symlink: true,
            ignore_case: false,
            executable_bit: true,
            precompose_unicode: false,
        },
        validate: NAMES,
        thread_limit: Some(threads.max(1) as usize),
        destination_is_initially_empty: true,
        ..gix_worktree_state::checkout::Options::new(filters)
    };
    let outcome = gix_worktree_state::checkout(
        &mut state,
        top,
        objects.clone(),
        &Discard,
        &Discard,
        &AtomicBool::new(false),
        options,
    );
    let outcome = outcome.map_err(|error| Failed::broken("write the work tree", chain(&error)))?;
    if let Some(collision) = outcome.collisions.first() {
        let message = format!("could not write `{}`: something is there already", collision.path);
        return Err(Failed::new(Why::Refused, message));
    }
    if let Some(record) = outcome.errors.first() {
        return Err(Failed::broken(format!("write `{}`", record.path), chain(&record.error)));
    }
    let index = git.join("index");
    File::from_state(state, index)
        .write(gix_index::write::Options::default())
        .map_err(|error| Failed::broken("write the index", chain(&error)))?;
    Ok((files, outcome.bytes_written))
}

/// Collects the entries of the index.
struct Walk<'a, F> {
    objects: &'a F,
    state: &'a mut State,
    path: BString,
}

impl<F: Find> Walk<'_, F> {
    fn walk(&mut self, tree: ObjectId, depth: usize) -> Result<(), Failed> {
        if depth > DEPTH_MAX {
            return Err(refused("a tree that is too deep", self.path.as_bstr()));
        }
        let mut buffer = Vec::new();
        let data = self
            .objects
            .try_find(&tree, &mut buffer)
            .map_err(|error| Failed::broken("read a tree", chain(&error)))?
            .ok_or_else(|| Failed::new(Why::NotFound, format!("there is no tree `{tree}`")))?;
        if data.kind != gix_object::Kind::Tree {
            return Err(refused("something that is no tree", self.path.as_bstr()));
        }
        let mut seen = std::collections::HashSet::new();
        for entry in TreeRefIter::from_bytes(data.data, gix_hash::Kind::Sha1) {
            let entry = entry.map_err(|error| Failed::broken("read a tree", error))?;
            // A name twice would be a file and a directory at once.
            if !seen.insert(entry.filename) {
                return Err(refused("a name twice", entry.filename));
            }
            let kind = entry.mode.kind();
            let link = (kind == EntryKind::Link).then_some(component::Mode::Symlink);
            if let Err(error) = gix_validate::path::component(entry.filename, link, NAMES) {
                let name = entry.filename;
                return Err(Failed::new(
                    Why::Refused,
                    format!("the repository has the name `{name}`: {error}"),
                ));
            }
            let before = self.path.len();
            if before > 0 {
                self.path.push(b'/');
            }
            self.path.extend_from_slice(entry.filename);
            if self.path.len() >= PATH_MAX {
                return Err(refused("a path that is too long", entry.filename));
            }
            match kind {
                EntryKind::Tree => self.walk(entry.oid.to_owned(), depth + 1)?,
                EntryKind::Blob => self.push(Mode::FILE, entry.oid)?,
                EntryKind::BlobExecutable => self.push(Mode::FILE_EXECUTABLE, entry.oid)?,
                EntryKind::Link => self.push(Mode::SYMLINK, entry.oid)?,
                EntryKind::Commit => self.push(Mode::COMMIT, entry.oid)?,
            }
            self.path.truncate(before);
        }
        Ok(())
    }

    fn push(&mut self, mode: Mode, id: &gix_hash::oid) -> Result<(), Failed> {
        if self.state.entries().len() >= ENTRIES_MAX {
            return Err(Failed::new(Why::Limit, format!("the repository has more than {ENTRIES_MAX} files")));
        }
        self.state.dangerously_push_entry(
            Stat::default(),
            id.to_owned(),
            Flags::empty(),
            mode,
            self.path.as_bstr(),
        );
        Ok(())
    }
}

fn refused(what: &str, name: &BStr) -> Failed {
    Failed::new(Why::Refused, format!("the repository has {what}: `{name}`"))
}
