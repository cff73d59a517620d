//! What a container engine's sandbox has in the home: a directory, made before anything else of it, with a place
//! for its guest's socket.

use std::ffi::CString;
use std::fs::{self, File};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use coracle_core::{Home, InstanceId, SandboxId};
use coracle_sys::tree;
use sha2::{Digest, Sha256};

use super::flavour::Flavour;
use super::image::Root;
use super::installing::Installing;
use crate::mark;
use crate::place::{self, private};
use crate::weak::{self, Wall};

const RUN: &str = "run";
const SOCKET: &str = "guest";
/// The file with the address of the sandbox's container engine.
const ENGINE: &str = "engine";
/// The file with the id of the sandbox's container, which stays the same if the container is renamed.
const CONTAINER: &str = "container";
/// The file with what the sandbox's image says of itself, for its later guests: the image may be gone then.
const IMAGE: &str = "image";
/// Records that the sandbox is at rest.
const AT_REST: &str = "at-rest";
/// Records that the container engine did not answer.
const SILENT: &str = "silent-";
/// The lock of the process that installs the guest's program at a container engine.
const INSTALLING: &str = "installing-";
/// The prefix of directories of container engines that are known by their address.
const FAR: &str = "at-";
/// Records that the guest's program is installed at the container engine.
const INSTALLED: &str = "installed-";

/// The part of the home that the backend of one container engine uses.
#[derive(Debug)]
pub struct Directories {
    engines: PathBuf,
    own: PathBuf,
}

impl Directories {
    pub fn new(home: &Home, backend: &str) -> Self {
        let engines = home.engines();
        Self { own: engines.join(directory_name(backend)), engines }
    }

    /// Makes the directory of a sandbox that will be on the container engine at this address. Returns the directory
    /// for its guest's socket.
    pub fn make_dir(&self, sandbox: &SandboxId, address: &str, instance: &InstanceId) -> io::Result<PathBuf> {
        self.make()?;
        let dir = self.place(sandbox);
        private(&dir)?;
        mark::put(&dir, instance)?;
        fs::write(dir.join(ENGINE), address)?;
        let run = dir.join(RUN);
        private(&run)?;
        Ok(run)
    }

    /// Returns the path of a sandbox's directory, which need not exist.
    pub fn place(&self, sandbox: &SandboxId) -> PathBuf {
        self.own.join(sandbox.as_str())
    }

    fn make(&self) -> io::Result<()> {
        private(&self.engines)?;
        private(&self.own)
    }

    /// Moves the guest's socket out of the directory that the container has, before any command runs there: then no
    /// command can find, remove or replace it, whatever rights commands get. The socket leads to the guest as
    /// before.
    pub fn take_socket(&self, sandbox: &SandboxId) -> io::Result<()> {
        let dir = self.own.join(sandbox.as_str());
        if weak::off(Wall::Socket) {
            return std::os::unix::fs::symlink(Path::new(RUN).join(SOCKET), dir.join(SOCKET));
        }
        fs::rename(dir.join(RUN).join(SOCKET), dir.join(SOCKET))
    }

    /// Puts it back, for `guest connect`, which looks for it from inside.
    pub fn return_socket(&self, sandbox: &SandboxId) {
        let dir = self.own.join(sandbox.as_str());
        // If this fails the guest cannot be reached, and is reported as gone.
        let _ = fs::rename(dir.join(SOCKET), dir.join(RUN).join(SOCKET));
    }

    pub fn connect(&self, sandbox: &SandboxId) -> io::Result<UnixStream> {
        place::connect(&self.own.join(sandbox.as_str()), SOCKET)
    }

    /// Returns the address of a sandbox's container engine; `None` if it has no directory, or got no further.
    pub fn engine_of(&self, sandbox: &SandboxId) -> io::Result<Option<String>> {
        match fs::read_to_string(self.own.join(sandbox.as_str()).join(ENGINE)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            said => said.map(|address| Some(address).filter(|address| !address.is_empty())),
        }
    }

    /// Records the id of a sandbox's container.
    pub fn note_container(&self, sandbox: &SandboxId, container: &str) -> io::Result<()> {
        fs::write(self.own.join(sandbox.as_str()).join(CONTAINER), container)
    }

    /// Returns the id of a sandbox's container; `None` if it has no directory, or got no further.
    pub fn container_of(&self, sandbox: &SandboxId) -> Option<String> {
        let said = fs::read_to_string(self.own.join(sandbox.as_str()).join(CONTAINER));
        said.ok().filter(|id| !id.is_empty())
    }

    /// Records what the image of a sandbox says of itself.
    pub fn note_root(&self, sandbox: &SandboxId, root: &Root) -> io::Result<()> {
        fs::write(self.place(sandbox).join(IMAGE), serde_json::to_vec(root)?)
    }

    pub fn root_of(&self, sandbox: &SandboxId) -> io::Result<Root> {
        Ok(serde_json::from_slice(&fs::read(self.place(sandbox).join(IMAGE))?)?)
    }

    /// Records whether a sandbox is at rest: without a guest, and meant to be so.
    pub fn note_rest(&self, sandbox: &SandboxId, at_rest: bool) -> io::Result<()> {
        let note = self.place(sandbox).join(AT_REST);
        match at_rest {
            true => fs::write(note, ""),
            false => tolerate_absence(fs::remove_file(note)),
        }
    }

    pub fn is_at_rest(&self, sandbox: &SandboxId) -> bool {
        self.place(sandbox).join(AT_REST).exists()
    }

    /// Removes the socket of a guest that is gone, wherever it is: the next one makes its own.
    pub fn clear_socket(&self, sandbox: &SandboxId) -> io::Result<()> {
        let dir = self.place(sandbox);
        tolerate_absence(fs::remove_file(dir.join(SOCKET)))?;
        tolerate_absence(fs::remove_file(dir.join(RUN).join(SOCKET)))
    }

    /// Returns the path of the record that the container engine at this address did not answer.
    pub fn silence(&self, address: &str) -> PathBuf {
        self.engines.join(format!("{SILENT}{}", &digest(address)[..16]))
    }

    /// Waits for the right to install the guest's program at the container engine at this address.
    pub fn installing(&self, address: &str) -> io::Result<Installing> {
        self.make()?;
        Installing::wait(&self.installing_path(address))
    }

    /// Returns that right if its last holder was killed half way.
    pub fn abandoned(&self, address: &str) -> io::Result<Option<Installing>> {
        Installing::abandoned(&self.installing_path(address))
    }

    fn installing_path(&self, address: &str) -> PathBuf {
        self.engines.join(format!("{INSTALLING}{}", &digest(address)[..16]))
    }

    pub fn has(&self, sandbox: &SandboxId) -> bool {
        self.own.join(sandbox.as_str()).symlink_metadata().is_ok()
    }

    /// Tells whether this backend was ever used from this home.
    pub fn is_used(&self) -> bool {
        self.own.symlink_metadata().is_ok()
    }

    /// Lists the sandboxes that have something here.
    pub fn list(&self) -> io::Result<Vec<SandboxId>> {
        match fs::read_dir(&self.own) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            entries => entries?
                .filter_map(|entry| entry.map(|entry| entry.file_name().to_str()?.parse().ok()).transpose())
                .collect(),
        }
    }

    /// Removes what a sandbox has here. Its own commands may have written some of it.
    pub fn remove(&self, sandbox: &SandboxId) -> io::Result<()> {
        if !self.has(sandbox) {
            return Ok(());
        }
        let name = CString::new(sandbox.as_str())?;
        tree::remove(File::open(&self.own)?.as_fd(), &name)
    }

    /// Returns the kind of the container engine at this address, if the guest's program is known to be installed
    /// there.
    pub fn installed(&self, address: &str) -> Option<Flavour> {
        fs::read_to_string(self.engines.join(installed_mark(address))).ok()?.parse().ok()
    }

    pub fn note_installed(&self, address: &str, flavour: Flavour) -> io::Result<()> {
        self.make()?;
        fs::write(self.engines.join(installed_mark(address)), flavour.name())
    }

    pub fn forget_installed(&self, address: &str) {
        // If it stays, the next start fails again and reports it.
        let _ = fs::remove_file(self.engines.join(installed_mark(address)));
    }
}

fn tolerate_absence(removed: io::Result<()>) -> io::Result<()> {
    match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

fn installed_mark(address: &str) -> String {
    let program = crate::program::FINGERPRINT;
    format!("{INSTALLED}{program}-{}", &digest(address)[..16])
}

/// Returns the container engines of this home's sandboxes that are known by their address alone.
pub fn far(home: &Home) -> Vec<String> {
    let entries = |path: &Path| fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path());
    let far = |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(FAR));
    let dirs = entries(&home.engines()).filter(far).flat_map(|engine| entries(&engine));
    let addresses = dirs.filter_map(|dir| fs::read_to_string(dir.join(ENGINE)).ok());
    // The name of such a backend is the address its directory is named after.
    let mut names: Vec<_> = addresses.filter(|address| address.contains("://")).collect();
    names.sort();
    names.dedup();
    names
}

/// Returns the directory name of a backend. If its name is an address, uses the readable part of it and a digest.
fn directory_name(backend: &str) -> String {
    match backend.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        true => backend.to_owned(),
        false => format!("{FAR}{}", &digest(backend)[..32]),
    }
}

fn digest(text: &str) -> String {
    Sha256::digest(text.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
}
