//! What an attack would get at: files and settings of the machine.

use std::fs::{self, File};
use std::hash::{BuildHasher, RandomState};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::Finished;

/// A file of the machine that every user may read and write, in a directory that every user may enter: only the
/// walls of the sandbox keep an attacker from it.
#[derive(Debug)]
pub struct Canary {
    directory: TempDir,
    secret: String,
}

impl Default for Canary {
    fn default() -> Self {
        Self::new()
    }
}

impl Canary {
    pub fn new() -> Self {
        let directory = tempfile::Builder::new().prefix("coracle-canary-").tempdir().expect("a directory");
        let secret = format!("canary-{:016x}", RandomState::new().hash_one(directory.path()));
        let canary = Self { directory, secret };
        fs::set_permissions(canary.directory(), fs::Permissions::from_mode(0o777)).expect("it is ours");
        canary.restore();
        canary
    }

    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    pub fn path(&self) -> PathBuf {
        self.directory().join("canary")
    }

    /// Returns the path as text.
    pub fn text(&self) -> String {
        self.path().to_string_lossy().into_owned()
    }

    /// Returns what only the file knows.
    pub fn secret(&self) -> &str {
        &self.secret
    }

    /// Puts the file back.
    pub fn restore(&self) {
        let _ = fs::remove_file(self.path());
        fs::write(self.path(), &self.secret).expect("the directory is ours");
        fs::set_permissions(self.path(), fs::Permissions::from_mode(0o666)).expect("it is ours");
    }

    /// Returns the changes to it since the last call, and undoes them.
    pub fn damage(&self) -> Vec<String> {
        let mut damage = Vec::new();
        match fs::read_to_string(self.path()) {
            Ok(text) if text == self.secret => {}
            Ok(_) => damage.push("wrote to a file of the machine".to_owned()),
            Err(_) => damage.push("removed a file of the machine".to_owned()),
        }
        for entry in fs::read_dir(self.directory()).expect("it is ours").flatten() {
            if entry.path() != self.path() {
                damage.push("made a file on the machine".to_owned());
                let _ = fs::remove_file(entry.path()).or_else(|_| fs::remove_dir_all(entry.path()));
            }
        }
        self.restore();
        damage
    }

    /// Tells whether the file was read.
    pub fn leaked(&self, finished: &Finished) -> Vec<String> {
        let told = |text: &str| text.contains(&self.secret);
        let read = told(&String::from_utf8_lossy(&finished.stdout)) || told(&finished.stderr);
        read.then(|| "read a file of the machine".to_owned()).into_iter().collect()
    }
}

/// A setting of the machine, put back as it was.
#[derive(Debug)]
pub struct Sysctl {
    path: PathBuf,
    before: String,
}

impl Sysctl {
    /// Returns nothing if this kernel does not have it.
    pub fn new(path: &str) -> Option<Self> {
        let before = fs::read_to_string(path).ok()?;
        Some(Self { path: path.into(), before })
    }

    /// Tells whether it was changed, and puts it back.
    pub fn damage(&self) -> Vec<String> {
        let changed = fs::read_to_string(&self.path).is_ok_and(|now| now != self.before);
        self.restore();
        changed.then(|| format!("changed {}", self.path.display())).into_iter().collect()
    }

    fn restore(&self) {
        let _ = fs::write(&self.path, &self.before);
    }
}

impl Drop for Sysctl {
    fn drop(&mut self) {
        self.restore();
    }
}

/// Keeps other attacks on the machine's own settings waiting, in this process and in others.
#[must_use = "it lasts as long as what is returned"]
pub fn machine() -> File {
    let path = std::env::temp_dir().join("coracle-attack.lock");
    let file = File::options().create(true).append(true).open(path).expect("a lock file can be made");
    file.lock().expect("a file can be locked");
    file
}
