//! The generated part of the image, made once. Every sandbox shares it read-only.

use std::fs;
use std::io;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use super::etc;

/// Raise it when the tree is built differently.
const LAYOUT: u32 = 2;

/// The id of `agent` in our `passwd`.
const AGENT: u32 = 1000;

/// Directories of the tree and their modes.
const DIRECTORIES: [(&str, u32); 16] = [
    ("dev", 0o755),
    ("etc", 0o755),
    ("etc/skel", 0o755),
    ("home", 0o755),
    ("home/agent", 0o755),
    ("mnt", 0o755),
    ("opt", 0o755),
    ("proc", 0o555),
    ("root", 0o700),
    ("run", 0o755),
    ("srv", 0o755),
    ("sys", 0o555),
    ("tmp", 0o1777),
    ("var", 0o755),
    ("var/tmp", 0o1777),
    ("workspace", 0o755),
];

/// What the tree is made from.
#[derive(Debug)]
pub struct Skeleton<'a> {
    pub store: &'a Path,
    /// Empty directories that the machine's own are mounted on.
    pub shared: &'a [&'a str],
    /// Links at the top, as the machine has them.
    pub links: Vec<(&'static str, PathBuf)>,
}

impl Skeleton<'_> {
    /// Returns the tree. Builds it if it is missing.
    pub fn ensure(&self) -> io::Result<PathBuf> {
        ensure(self.store, &self.name(), |root| self.build(root))
    }

    /// Names the tree after everything it is made from, so that a change makes a new one.
    fn name(&self) -> String {
        use std::hash::{DefaultHasher, Hash, Hasher};
        let mut hasher = DefaultHasher::new();
        (LAYOUT, etc::fingerprint(), self.shared, &self.links).hash(&mut hasher);
        format!("host-{:016x}", hasher.finish())
    }

    fn build(&self, root: &Path) -> io::Result<()> {
        fs::create_dir_all(root)?;
        fs::set_permissions(root, fs::Permissions::from_mode(0o755))?;
        for (name, mode) in DIRECTORIES {
            fs::create_dir(root.join(name))?;
            fs::set_permissions(root.join(name), fs::Permissions::from_mode(mode))?;
        }
        // The only user besides root. Without the right to change owners it stays root's, and no command runs as
        // `agent` then.
        let _ = std::os::unix::fs::chown(root.join("home/agent"), Some(AGENT), Some(AGENT));
        symlink("/run", root.join("var/run"))?;
        for name in self.shared {
            fs::create_dir(root.join(name))?;
            fs::set_permissions(root.join(name), fs::Permissions::from_mode(0o755))?;
        }
        for (name, target) in &self.links {
            symlink(target, root.join(name))?;
        }
        etc::build(&root.join("etc"))
    }
}

/// Returns a tree by its name. Builds it if it is missing. It appears under its name complete or not at all.
pub fn ensure(store: &Path, name: &str, build: impl FnOnce(&Path) -> io::Result<()>) -> io::Result<PathBuf> {
    let finished = store.join(name);
    if finished.is_dir() {
        return Ok(finished);
    }
    make_private(store)?;
    // The name is this thread's alone. An existing draft is from an earlier process with the same pid.
    static SERIAL: AtomicU64 = AtomicU64::new(0);
    let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
    let draft = store.join(format!(".draft-{}-{serial}-{name}", std::process::id()));
    let _ = fs::remove_dir_all(&draft);
    build(&draft)?;
    match fs::rename(&draft, &finished) {
        Ok(()) => Ok(finished),
        // Another process was faster; its tree is the same.
        Err(_) if finished.is_dir() => fs::remove_dir_all(&draft).map(|()| finished),
        Err(error) => Err(error),
    }
}

/// Makes the directory for images. No other user may change what every sandbox is made from.
fn make_private(path: &Path) -> io::Result<()> {
    fs::create_dir_all(path)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o700))
}
