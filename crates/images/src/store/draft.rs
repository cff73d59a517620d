//! A layer in the making, and the step that makes it visible.

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

/// The file beside a layer's files with its description.
const ABOUT: &str = "layer.json";

/// The description of a layer.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct About {
    pub bytes: u64,
    pub entries: u64,
    /// Entries that were left out, such as devices, and attributes that were.
    pub skipped: u64,
    pub stripped: u64,
}

/// A directory for a future layer. Its maker holds a lock on it, and it is removed with its maker.
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
                // From an earlier process with our pid.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                made => made?,
            }
            // Another process that cleans up may remove it between making and locking; then make another.
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
            // Independent of the caller's umask: a layer that does not describe its root means this mode.
            fs::set_permissions(draft.tree(), fs::Permissions::from_mode(0o755))?;
            return Ok(draft);
        }
    }

    /// Returns the directory for the layer's files.
    pub fn tree(&self) -> PathBuf {
        self.path.join(TREE)
    }

    /// Makes it the layer. Succeeds if another process has put the same layer there already.
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
        // After a power cut a name must not exist without all of its content.
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
        // After a commit nothing is left under this name.
        let _ = remove(&self.path);
    }
}

/// Reads the description of a layer.
pub fn about(layout: &Layout, diff_id: &Digest) -> io::Result<About> {
    let text = fs::read(layout.layer(diff_id).join(ABOUT))?;
    Ok(serde_json::from_slice(&text).unwrap_or_default())
}

/// Removes the drafts of dead makers.
pub fn sweep(layout: &Layout) -> io::Result<()> {
    for path in entries(&layout.drafts())? {
        if let Some(_lock) = lock::try_existing(&path)? {
            remove(&path)?;
        }
    }
    Ok(())
}

/// Removes a tree, whatever modes its directories have. Succeeds if it is missing.
pub fn remove(path: &Path) -> io::Result<()> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { return Ok(()) };
    let name = CString::new(name.as_encoded_bytes()).map_err(io::Error::other)?;
    match File::open(parent) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        parent => tree::remove(parent?.as_fd(), &name),
    }
}
