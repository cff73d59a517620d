//! The directory of a store: where things are, and how they appear in it.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use super::lock;
use crate::digest::Digest;

/// The paths of a store. Outside of `drafts` and `partial`, all layers, records and names are complete.
#[derive(Debug)]
pub struct Layout {
    root: PathBuf,
}

const LAYERS: &str = "layers";
const RECORDS: &str = "records";
const REFERENCES: &str = "references";
const PARTIAL: &str = "partial";
const DRAFTS: &str = "drafts";
const LOCKS: &str = "locks";
const UNPACKER: &str = "unpacker";

/// The files of a layer, inside its directory.
pub const TREE: &str = "tree";

impl Layout {
    pub fn new(root: PathBuf) -> Self {
        Self { root }
    }

    /// Makes the directories. No other user may enter any of them.
    pub fn prepare(&self) -> io::Result<()> {
        private(&self.root)?;
        [LAYERS, RECORDS, REFERENCES, PARTIAL, DRAFTS, LOCKS, UNPACKER]
            .iter()
            .try_for_each(|name| private(&self.root.join(name)))
    }

    pub fn layers(&self) -> PathBuf {
        self.root.join(LAYERS)
    }

    pub fn layer(&self, diff_id: &Digest) -> PathBuf {
        self.layers().join(diff_id.hex())
    }

    pub fn records(&self) -> PathBuf {
        self.root.join(RECORDS)
    }

    pub fn record(&self, manifest: &Digest) -> PathBuf {
        self.records().join(manifest.hex())
    }

    pub fn references(&self) -> PathBuf {
        self.root.join(REFERENCES)
    }

    /// A name has slashes and may be longer than a file name, so the file is named by the name's digest.
    pub fn reference(&self, reference: &str) -> PathBuf {
        self.references().join(Digest::of(reference.as_bytes()).hex())
    }

    pub fn partials(&self) -> PathBuf {
        self.root.join(PARTIAL)
    }

    /// Returns a path in `partial` for one puller's part of a blob. Earlier versions had one part for all pullers,
    /// named by the digest alone.
    pub fn new_partial(&self, blob: &Digest) -> PathBuf {
        self.partials().join(format!("{}.{}", blob.hex(), unique()))
    }

    /// Lists the parts of a blob, of all pullers.
    pub fn partials_of(&self, blob: &Digest) -> io::Result<Vec<PathBuf>> {
        let is_of = |path: &PathBuf| path.file_stem().is_some_and(|stem| stem == blob.hex());
        Ok(entries(&self.partials())?.into_iter().filter(is_of).collect())
    }

    pub fn drafts(&self) -> PathBuf {
        self.root.join(DRAFTS)
    }

    pub fn locks(&self) -> PathBuf {
        self.root.join(LOCKS)
    }

    pub fn lock(&self, name: &str) -> PathBuf {
        self.locks().join(name)
    }

    pub fn unpacker(&self) -> PathBuf {
        self.root.join(UNPACKER)
    }

    /// Returns an unused path in `drafts`.
    pub fn new_draft(&self) -> PathBuf {
        self.drafts().join(unique())
    }

    /// Writes a file that appears complete or not at all.
    pub fn write(&self, path: &Path, content: &[u8]) -> io::Result<()> {
        let (draft, mut file) = self.draft_file()?;
        file.write_all(content)?;
        file.sync_all()?;
        fs::rename(&draft, path)?;
        sync_directory(path.parent().unwrap_or(&self.root))
    }

    /// Makes a file without a name, which ends with its last user.
    pub fn nameless_file(&self) -> io::Result<File> {
        let (draft, file) = self.draft_file()?;
        remove_file(&draft)?;
        Ok(file)
    }

    /// Makes a file in `drafts`, locked so that no other process takes it for a dead one's.
    fn draft_file(&self) -> io::Result<(PathBuf, File)> {
        loop {
            let draft = self.new_draft();
            if let Some(file) = new_locked(&draft)? {
                return Ok((draft, file));
            }
        }
    }
}

/// Makes a file and locks it, so that no other process takes it for a dead one's. Returns `None` if another was
/// faster.
pub fn new_locked(path: &Path) -> io::Result<Option<File>> {
    let options = &mut OpenOptions::new();
    let file = match options.read(true).write(true).create_new(true).mode(0o600).open(path) {
        // From an earlier process with our pid.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(None),
        file => file?,
    };
    // Does not wait: another puller that found it unlocked has taken it over, and may work on it for hours.
    lock::try_file(file, path)
}

/// Returns a name that is unique in this process and among live processes.
fn unique() -> String {
    static SERIAL: AtomicU64 = AtomicU64::new(0);
    let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
    format!("{}-{serial}", std::process::id())
}

/// Makes renames into a directory, and removals from it, survive a power cut.
pub fn sync_directory(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

/// Makes a directory no other user may enter: no one may change or read what is unpacked there.
pub fn private(path: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            match fs::metadata(path)?.permissions().mode() & 0o7777 {
                0o700 => Ok(()),
                _ => fs::set_permissions(path, fs::Permissions::from_mode(0o700)),
            }
        }
        result => result,
    }
}

/// Lists a directory; empty if it is missing.
pub fn entries(path: &Path) -> io::Result<Vec<PathBuf>> {
    match fs::read_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        entries => entries?.map(|entry| Ok(entry?.path())).collect(),
    }
}

/// Removes a file. Succeeds if it is missing.
pub fn remove_file(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}
