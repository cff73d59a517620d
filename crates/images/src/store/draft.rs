//! A layer that is being made, and the moment from which it is there.

use std::ffi::CString;
use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

use coracle_sys::rustix::fs::syncfs;
use coracle_sys::tree;
use coracle_unpack::Outcome;
use serde::{Deserialize, Serialize};

use super::layout::{Layout, TREE, entries, sync_directory};
use super::lock;
use crate::digest::Digest;

/// What is written beside a layer's files.
const ABOUT: &str = "layer.json";

/// What is known of a layer that is here.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct About {
    pub bytes: u64,
    pub entries: u64,
    /// Devices and the like, and attributes that were left out.
    pub skipped: u64,
    pub stripped: u64,
}

/// A directory for a layer to be. It is locked while its maker lives, and removed with it.
#[derive(Debug)]
pub struct Draft {
    path: PathBuf,
    _lock: File,
}

impl Draft {
    pub fn new(layout: &Layout) -> io::Result<Self> {
        loop {
            let path = layout.new_draft();
            match DirBuilder::new().mode(0o700).create(&path) {
                // Of an earlier process with our number.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                made => made?,
            }
            // Someone who tidies up may come between making and locking it; then there is another one to make.
            let lock = match File::open(&path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                lock => lock?,
            };
            lock.lock()?;
            if !lock::is_at(&lock, &path)? {
                continue;
            }
            let draft = Self { path, _lock: lock };
            DirBuilder::new().mode(0o755).create(draft.tree())?;
            // Whatever the caller's mask made of it: a layer that says nothing of its root means this.
            fs::set_permissions(draft.tree(), fs::Permissions::from_mode(0o755))?;
            return Ok(draft);
        }
    }

    /// Returns the directory for the layer's files.
    pub fn tree(&self) -> PathBuf {
        self.path.join(TREE)
    }

    /// Makes it the layer. Succeeds if someone else's is there already.
    pub fn commit(
        self,
        layout: &Layout,
        diff_id: &Digest,
        outcome: &Outcome,
        crash: fn(&'static str),
    ) -> io::Result<()> {
        let Outcome { bytes, entries, skipped, stripped, .. } = *outcome;
        let about =
            serde_json::to_vec(&About { bytes, entries, skipped, stripped }).map_err(io::Error::other)?;
        fs::write(self.path.join(ABOUT), about)?;
        crash("images.layer.unpacked");
        // After a power cut a name must not be there without all that is behind it.
        syncfs(File::open(&self.path)?)?;
        crash("images.layer.synced");
        match fs::rename(&self.path, layout.layer(diff_id)) {
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::DirectoryNotEmpty | io::ErrorKind::AlreadyExists
                ) => {}
            renamed => renamed?,
        }
        sync_directory(&layout.layers())
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        // After a commit there is nothing under this name any more.
        let _ = remove(&self.path);
    }
}

/// Reads what is known of a layer.
pub fn about(layout: &Layout, diff_id: &Digest) -> io::Result<About> {
    let text = fs::read(layout.layer(diff_id).join(ABOUT))?;
    Ok(serde_json::from_slice(&text).unwrap_or_default())
}

/// Removes the drafts whose makers are dead.
pub fn sweep(layout: &Layout) -> io::Result<()> {
    for path in entries(&layout.drafts())? {
        if let Some(_lock) = lock::try_existing(&path)? {
            remove(&path)?;
        }
    }
    Ok(())
}

/// Removes a tree, whatever modes its directories have. Succeeds if it is not there.
pub fn remove(path: &Path) -> io::Result<()> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { return Ok(()) };
    let name = CString::new(name.as_encoded_bytes()).map_err(io::Error::other)?;
    match File::open(parent) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        parent => tree::remove(parent?.as_fd(), &name),
    }
}
