//! The objects of the repository, read with bounds.

use coracle_porter::{Failed, Why};
use gix_hash::ObjectId;
use gix_object::tree::EntryKind;
use gix_object::{Find, FindHeader, Kind, TreeRefIter};

use crate::checkout::chain;

/// The largest object that is read. Larger files are named and not looked into.
pub const OBJECT_MAX: u64 = 256 << 20;
/// Where the object directory is, in the cage.
const DIRECTORY: &str = "/";

/// The object directory.
pub struct Objects {
    pub handle: gix_odb::Handle,
}

/// A commit, in short.
pub struct Commit {
    pub tree: ObjectId,
    pub parents: Vec<ObjectId>,
    pub time: i64,
}

/// An entry of a tree.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    pub mode: u32,
    pub kind: EntryKind,
    pub id: ObjectId,
}

impl Objects {
    pub fn open() -> Result<Self, Failed> {
        let options = gix_odb::store::init::Options {
            alloc_limit_bytes: Some(OBJECT_MAX as usize),
            current_dir: Some(DIRECTORY.into()),
            ..gix_odb::store::init::Options::default()
        };
        let handle = gix_odb::at_opts(DIRECTORY, gix_hash::Kind::Sha1, None, options)
            .map_err(|error| Failed::broken("open the objects", error))?;
        Ok(Self { handle })
    }

    /// Reads an id.
    pub fn id(&self, text: &str) -> Result<ObjectId, Failed> {
        ObjectId::from_hex(text.as_bytes())
            .map_err(|_| Failed::new(Why::Invalid, format!("`{text}` is no object id")))
    }

    /// Returns an object and its kind.
    pub fn read<'a>(&self, id: &ObjectId, buffer: &'a mut Vec<u8>) -> Result<(Kind, &'a [u8]), Failed> {
        let header = self.handle.try_header(id).map_err(|error| unreadable(id, &error))?;
        let size = header.ok_or_else(|| missing(id))?.size;
        if size > OBJECT_MAX {
            return Err(Failed::new(Why::Limit, format!("object `{id}` has {size} bytes")));
        }
        let data = self.handle.try_find(id, buffer).map_err(|error| unreadable(id, &error))?;
        data.map(|data| (data.kind, data.data)).ok_or_else(|| missing(id))
    }

    /// Returns the size of an object.
    pub fn size(&self, id: &ObjectId) -> Result<u64, Failed> {
        let header = self.handle.try_header(id).map_err(|error| unreadable(id, &error))?;
        header.map(|header| header.size).ok_or_else(|| missing(id))
    }

    pub fn commit(&self, id: &ObjectId) -> Result<Commit, Failed> {
        let mut buffer = Vec::new();
        let (kind, data) = self.read(id, &mut buffer)?;
        if kind != Kind::Commit {
            return Err(Failed::new(Why::Invalid, format!("`{id}` is a {kind}, not a commit")));
        }
        let commit = gix_object::CommitRef::from_bytes(data, gix_hash::Kind::Sha1)
            .map_err(|error| Failed::broken(format!("read commit `{id}`"), chain(&error)))?;
        let time = commit.committer().ok().and_then(|who| who.time().ok()).map_or(0, |time| time.seconds);
        Ok(Commit { tree: commit.tree(), parents: commit.parents().collect(), time })
    }

    /// Returns the tree that a commit or a tree means.
    pub fn tree_of(&self, id: &ObjectId) -> Result<ObjectId, Failed> {
        let mut buffer = Vec::new();
        match self.read(id, &mut buffer)?.0 {
            Kind::Tree => Ok(*id),
            _ => Ok(self.commit(id)?.tree),
        }
    }

    /// Returns the entries of a tree by name.
    pub fn tree(&self, id: &ObjectId) -> Result<std::collections::BTreeMap<Vec<u8>, Entry>, Failed> {
        let mut buffer = Vec::new();
        let (kind, data) = self.read(id, &mut buffer)?;
        if kind != Kind::Tree {
            return Err(Failed::new(Why::Invalid, format!("`{id}` is a {kind}, not a tree")));
        }
        TreeRefIter::from_bytes(data, gix_hash::Kind::Sha1)
            .map(|entry| {
                let entry = entry.map_err(|error| Failed::broken(format!("read tree `{id}`"), error))?;
                let (mode, kind) = (u32::from(entry.mode.value()), entry.mode.kind());
                Ok((entry.filename.to_vec(), Entry { mode, kind, id: entry.oid.to_owned() }))
            })
            .collect()
    }
}

fn missing(id: &ObjectId) -> Failed {
    Failed::new(Why::NotFound, format!("there is no object `{id}`"))
}

fn unreadable(id: &ObjectId, error: &gix_error::Error) -> Failed {
    Failed::broken(format!("read object `{id}`"), chain(error))
}
