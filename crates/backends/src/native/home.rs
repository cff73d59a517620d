//! What a sandbox has in the home: a directory with its storage, its workspace and its guest's socket.

use std::ffi::CString;
use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use coracle_core::SandboxId;
use coracle_sys::tree;

const SOCKET: &str = "guest.sock";

/// The part of the home this backend uses.
#[derive(Debug)]
pub struct Home {
    sandboxes: PathBuf,
    pub guest: PathBuf,
    pub images: PathBuf,
}

/// One sandbox's directory.
#[derive(Debug)]
pub struct Room {
    pub path: PathBuf,
    directory: File,
}

impl Home {
    pub fn new(home: &Path) -> Self {
        Self { sandboxes: home.join("sandboxes"), guest: home.join("guest"), images: home.join("images") }
    }

    /// Makes the directory of a sandbox, with storage for `overlays` more overlays than the root's. What is inside the
    /// sandbox later belongs to `owner`; the way to it is ours alone.
    pub fn make_room(&self, sandbox: &SandboxId, overlays: usize, owner: u32) -> io::Result<Room> {
        private(&self.sandboxes)?;
        let path = self.sandboxes.join(sandbox.as_str());
        private(&path)?;
        let names = (0..overlays)
            .flat_map(|index| [format!("storage/upper-{index}"), format!("storage/work-{index}")]);
        let fixed = ["storage", "storage/upper", "storage/work", "workspace"].map(str::to_owned);
        for name in fixed.into_iter().chain(names) {
            let directory = path.join(name);
            DirBuilder::new().mode(0o755).create(&directory)?;
            // Whatever the caller's umask made of it.
            fs::set_permissions(&directory, fs::Permissions::from_mode(0o755))?;
            std::os::unix::fs::chown(&directory, Some(owner), Some(owner))?;
        }
        Ok(Room { directory: File::open(&path)?, path })
    }

    pub fn connect(&self, sandbox: &SandboxId) -> io::Result<UnixStream> {
        let directory = File::open(self.sandboxes.join(sandbox.as_str()))?;
        UnixStream::connect(short_path(&directory))
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
