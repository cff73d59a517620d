//! What a sandbox has in the home: a directory with its storage, its guest's socket and a note of what it uses.

use std::collections::BTreeMap;
use std::ffi::CString;
use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use coracle_core::{SandboxId, VolumeName};
use coracle_sys::tree;
use serde::{Deserialize, Serialize};

const SOCKET: &str = "guest.sock";
const USES: &str = "uses";
const STORAGE: &str = "storage";
const DISK: &str = "disk";
const FIRST: &str = "first";
const DEVICE: &str = "device";

/// The part of the home this backend uses.
#[derive(Debug)]
pub struct Home {
    sandboxes: PathBuf,
    pub guest: PathBuf,
    pub images: PathBuf,
    pub disks: PathBuf,
    pub volumes: PathBuf,
}

/// One sandbox's directory.
#[derive(Debug)]
pub struct Room {
    path: PathBuf,
    directory: File,
}

/// What a sandbox is made from that others may want to remove.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Uses {
    pub image: Option<String>,
    pub volumes: Vec<VolumeName>,
}

impl Home {
    pub fn new(home: &Path) -> Self {
        Self {
            sandboxes: home.join("sandboxes"),
            guest: home.join("guest"),
            images: home.join("images"),
            disks: home.join("disks"),
            volumes: home.join("volumes"),
        }
    }

    /// Makes the directory of a sandbox. The way to it is ours alone.
    pub fn make_room(&self, sandbox: &SandboxId) -> io::Result<Room> {
        private(&self.sandboxes)?;
        let path = self.sandboxes.join(sandbox.as_str());
        private(&path)?;
        Ok(Room { directory: File::open(&path)?, path })
    }

    pub fn connect(&self, sandbox: &SandboxId) -> io::Result<UnixStream> {
        let directory = File::open(self.sandboxes.join(sandbox.as_str()))?;
        UnixStream::connect(short_path(&directory))
    }

    /// Returns where the first process of a sandbox is written down.
    pub fn first(&self, sandbox: &SandboxId) -> PathBuf {
        self.sandboxes.join(sandbox.as_str()).join(FIRST)
    }

    /// Returns whether the sandbox has anything here.
    pub fn has(&self, sandbox: &SandboxId) -> bool {
        self.sandboxes.join(sandbox.as_str()).symlink_metadata().is_ok()
    }

    /// Lists the sandboxes that have something here.
    pub fn list(&self) -> io::Result<Vec<SandboxId>> {
        match fs::read_dir(&self.sandboxes) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            entries => entries?
                .filter_map(|entry| entry.map(|entry| entry.file_name().to_str()?.parse().ok()).transpose())
                .collect(),
        }
    }

    /// Returns what each sandbox here uses.
    pub fn uses(&self) -> io::Result<BTreeMap<SandboxId, Uses>> {
        let mut all = BTreeMap::new();
        for sandbox in self.list()? {
            match fs::read(self.sandboxes.join(sandbox.as_str()).join(USES)) {
                // Written before anything is used: without it, nothing is.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                text => {
                    let uses = serde_json::from_slice(&text?).map_err(|error| {
                        let text =
                            format!("what sandbox `{sandbox}` uses cannot be read ({error}): close it");
                        io::Error::other(text)
                    })?;
                    all.insert(sandbox, uses);
                }
            }
        }
        Ok(all)
    }

    /// Returns a sandbox's disk and the device it was mounted from, if it has one.
    pub fn disk(&self, sandbox: &SandboxId) -> Option<(PathBuf, PathBuf)> {
        let room = self.sandboxes.join(sandbox.as_str());
        let device = fs::read_to_string(room.join(DEVICE)).ok()?;
        Some((room.join(DISK), PathBuf::from(device)))
    }

    /// Removes the sandbox's directory, whatever was written to it. Succeeds if it is not there.
    pub fn remove(&self, sandbox: &SandboxId) -> io::Result<()> {
        let parent = match File::open(&self.sandboxes) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            parent => parent?,
        };
        let name = CString::new(sandbox.as_str()).map_err(io::Error::other)?;
        tree::remove(parent.as_fd(), &name)
    }
}

impl Room {
    pub fn listen(&self) -> io::Result<UnixListener> {
        UnixListener::bind(short_path(&self.directory))
    }

    /// Writes down what the sandbox is made from, before it is.
    pub fn note(&self, uses: &Uses) -> io::Result<()> {
        // Whole or not at all: whoever reads it decides by it what may be removed.
        let draft = self.path.join(".uses");
        fs::write(&draft, serde_json::to_vec(uses)?)?;
        fs::rename(draft, self.path.join(USES))
    }

    /// Returns the file a disk goes into.
    pub fn disk(&self) -> PathBuf {
        self.path.join(DISK)
    }

    /// Writes down the device the disk is mounted from.
    pub fn note_device(&self, device: &Path) -> io::Result<()> {
        fs::write(self.path.join(DEVICE), device.as_os_str().as_encoded_bytes())
    }

    /// Makes the directory that is the storage where there is no disk. What is inside belongs to `owner`, or to us.
    pub fn make_storage(&self, owner: Option<u32>) -> io::Result<PathBuf> {
        let directory = self.path.join(STORAGE);
        DirBuilder::new().mode(0o755).create(&directory)?;
        // Whatever the caller's umask made of it.
        fs::set_permissions(&directory, fs::Permissions::from_mode(0o755))?;
        if owner.is_some() {
            std::os::unix::fs::chown(&directory, owner, owner)?;
        }
        Ok(directory)
    }
}

/// A socket's path has at most 107 bytes, and the home's may be longer: it is named through a descriptor.
fn short_path(directory: &File) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}/{SOCKET}", directory.as_raw_fd()))
}

/// Makes a directory nobody else may enter; what is executed from it or written through it is ours alone.
pub fn private(path: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            fs::set_permissions(path, fs::Permissions::from_mode(0o700))
        }
        result => result,
    }
}
