//! Merges two commits in memory. No driver, filter or attribute of the repository has a say: they would be programs.

use coracle_porter::{Conflict, ConflictKind, Failed, Merge, Merged, NewCommit, Why};
use gix_hash::ObjectId;
use gix_merge::blob::builtin_driver::text;
use gix_merge::tree::{Resolution, ResolutionFailure, TreatAsUnresolved};
use gix_object::Write;

use super::objects::{OBJECT_MAX, Objects};
use super::pack::pack;
use crate::checkout::chain;

/// The most conflicts of one answer.
const CONFLICTS_MAX: usize = 10_000;
/// The largest pack of an answer, which is one message.
const PACK_MAX: usize = 24 << 20;

/// Merges the trees of two commits.
pub fn merge(objects: &Objects, order: &Merge) -> Result<Merged, Failed> {
    let (ours, theirs) = (objects.id(&order.ours)?, objects.id(&order.theirs)?);
    let base = match &order.base {
        Some(base) => Some(objects.id(base)?),
        None => base_of(objects, ours, theirs)?,
    };
    let base_tree = match &base {
        Some(base) => objects.tree_of(base)?,
        None => ObjectId::empty_tree(gix_hash::Kind::Sha1),
    };
    let trees = [base_tree, objects.tree_of(&ours)?, objects.tree_of(&theirs)?];
    let memory = gix_odb::memory::Proxy::new(objects.handle.clone(), gix_hash::Kind::Sha1);
    let (mut diffs, mut blobs) = (platforms::diffs(), platforms::blobs());
    let outcome = gix_merge::tree(
        &trees[0],
        &trees[1],
        &trees[2],
        text::Labels::default(),
        &memory,
        |blob| memory.write_buf(gix_object::Kind::Blob, blob),
        &mut gix_diff::tree::State::default(),
        &mut diffs,
        &mut blobs,
        platforms::options(),
    );
    let mut outcome = outcome.map_err(|error| Failed::broken("merge", chain(&error)))?;
    let how = TreatAsUnresolved::git();
    let unresolved: Vec<_> =
        outcome.conflicts.iter().filter(|conflict| conflict.is_unresolved(how)).collect();
    let base = base.map(|id| id.to_string());
    if !unresolved.is_empty() {
        let conflicts = unresolved.iter().take(CONFLICTS_MAX).map(|conflict| describe(conflict)).collect();
        let more = unresolved.len() > CONFLICTS_MAX;
        return Ok(Merged { base, tree: None, commit: None, pack: Vec::new(), conflicts, more });
    }
    let tree = outcome
        .tree
        .write(|tree| memory.write(tree))
        .map_err(|error| Failed::broken("write the merged tree", chain(&error)))?;
    let commit = order.commit.as_ref().map(|new| commit(objects, &memory, tree, new)).transpose()?;
    let new = memory.reset_object_memory();
    let new = new
        .as_deref()
        .map(|new| new.values().map(|(kind, data)| (*kind, data.as_slice())).collect::<Vec<_>>());
    let pack = match new {
        Some(new) if !new.is_empty() => pack(new.into_iter())?,
        _ => Vec::new(),
    };
    if pack.len() > PACK_MAX {
        return Err(Failed::new(Why::Limit, format!("the merge makes objects of {} bytes", pack.len())));
    }
    let (tree, commit) = (Some(tree.to_string()), commit.map(|id| id.to_string()));
    Ok(Merged { base, tree, commit, pack, conflicts: Vec::new(), more: false })
}

/// Returns the best common ancestor; of several equally good ones the first.
fn base_of(objects: &Objects, ours: ObjectId, theirs: ObjectId) -> Result<Option<ObjectId>, Failed> {
    // Both must be commits.
    objects.commit(&ours)?;
    objects.commit(&theirs)?;
    let mut graph = gix_revwalk::Graph::new(&objects.handle, None);
    let bases = gix_revision::merge_base(ours, &[theirs], &mut graph)
        .map_err(|error| Failed::broken("find a common ancestor", chain(&error)))?;
    Ok(bases.map(|bases| *bases.first()))
}

fn commit(
    objects: &Objects,
    memory: &impl Write,
    tree: ObjectId,
    new: &NewCommit,
) -> Result<ObjectId, Failed> {
    let who = gix_actor::Signature {
        name: new.author_name.as_str().into(),
        email: new.author_email.as_str().into(),
        time: gix_date::Time::new(new.time, 0),
    };
    let parents = new.parents.iter().map(|parent| objects.id(parent)).collect::<Result<Vec<_>, _>>()?;
    let commit = gix_object::Commit {
        tree,
        parents: parents.into(),
        author: who.clone(),
        committer: who,
        encoding: None,
        message: new.message.as_str().into(),
        extra_headers: Vec::new(),
    };
    memory.write(&commit).map_err(|error| Failed::broken("write the commit", chain(&error)))
}

fn describe(conflict: &gix_merge::tree::Conflict) -> Conflict {
    let [base, ours, theirs] = conflict.entries().map(|entry| entry.map(|entry| entry.id.to_string()));
    let kind = match &conflict.resolution {
        Ok(Resolution::SourceLocationAffectedByRename { .. }) => ConflictKind::Rename,
        Ok(_) if base.is_none() => ConflictKind::AddAdd,
        Ok(_) => ConflictKind::Content,
        Err(failure) => match failure {
            ResolutionFailure::SubmoduleMerge | ResolutionFailure::SubmoduleAddAdd => ConflictKind::Submodule,
            ResolutionFailure::OursModifiedTheirsDeleted => ConflictKind::ModifyDelete,
            ResolutionFailure::OursRenamedTheirsRenamedToSameLocation
            | ResolutionFailure::OursRenamedTheirsRenamedDifferently { .. }
            | ResolutionFailure::OursDeletedTheirsRenamed => ConflictKind::Rename,
            ResolutionFailure::OursModifiedTheirsDirectoryThenOursRenamed { .. }
            | ResolutionFailure::OursDirectoryTheirsNonDirectoryTheirsRenamed { .. }
            | ResolutionFailure::OursAddedTheirsAddedTypeMismatch { .. }
            | ResolutionFailure::OursModifiedTheirsRenamedTypeMismatch => ConflictKind::Type,
            ResolutionFailure::Unknown => ConflictKind::Other,
        },
    };
    Conflict { path: conflict.ours.location().to_vec(), kind, base, ours, theirs }
}

/// What the crates need to compare and merge, without configuration.
mod platforms {
    use gix_merge::blob::builtin_driver::text;

    use super::OBJECT_MAX;

    fn attributes() -> gix_worktree::Stack {
        let state =
            gix_worktree::stack::State::AttributesStack(gix_worktree::stack::state::Attributes::default());
        gix_worktree::Stack::new("/", state, gix_glob::pattern::Case::Sensitive, Vec::new(), Vec::new())
    }

    fn filters() -> gix_filter::Pipeline {
        let options = gix_filter::pipeline::Options::default();
        gix_filter::Pipeline::new(gix_command::Context::default(), gix_hash::Kind::Sha1, options)
    }

    pub fn diffs() -> gix_diff::blob::Platform {
        let options = gix_diff::blob::pipeline::Options {
            large_file_threshold_bytes: OBJECT_MAX,
            ..gix_diff::blob::pipeline::Options::default()
        };
        gix_diff::blob::Platform::new(
            gix_diff::blob::platform::Options::default(),
            gix_diff::blob::Pipeline::new(Default::default(), filters(), Vec::new(), options),
            gix_diff::blob::pipeline::Mode::ToGit,
            attributes(),
        )
    }

    pub fn blobs() -> gix_merge::blob::Platform {
        let options = gix_merge::blob::pipeline::Options { large_file_threshold_bytes: OBJECT_MAX };
        gix_merge::blob::Platform::new(
            gix_merge::blob::Pipeline::new(Default::default(), filters(), options),
            gix_merge::blob::pipeline::Mode::ToGit,
            attributes(),
            Vec::new(),
            gix_merge::blob::platform::Options::default(),
        )
    }

    pub fn options() -> gix_merge::tree::Options {
        gix_merge::tree::Options {
            rewrites: Some(gix_diff::Rewrites::default()),
            blob_merge: gix_merge::blob::platform::merge::Options {
                is_virtual_ancestor: false,
                resolve_binary_with: None,
                text: text::Options::default(),
            },
            ..gix_merge::tree::Options::default()
        }
    }
}
