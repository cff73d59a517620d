//! What a sandbox has in the home: a directory with its storage, its guest's socket and a record of what it uses.

use std::collections::BTreeMap;
use std::ffi::CString;
use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use coracle_core::home::short_path;
use coracle_core::{Home, InstanceId, SandboxId, VolumeName};
use coracle_sys::tree;
use coracle_wire::End;
use serde::{Deserialize, Serialize};

use crate::mark;
use crate::place::{self, private};

const SOCKET: &str = "guest.sock";
const USES: &str = "uses";
const STORAGE: &str = "storage";
const DISK: &str = "disk";
const FIRST: &str = "first";
/// Where the guest writes why it ended, if it ended by itself.
const END: &str = "end";
/// Most disks one sandbox starts from, one below the other: each is a device and a filesystem of the machine.
pub const BASES_MAX: usize = 16;

/// The part of the home this backend uses.
#[derive(Debug)]
pub struct Directories {
    sandboxes: PathBuf,
    pub guest: PathBuf,
    pub images: PathBuf,
    pub disks: PathBuf,
    pub volumes: PathBuf,
    pub snapshots: PathBuf,
}

/// One sandbox's directory.
#[derive(Debug)]
pub struct SandboxDir {
    path: PathBuf,
    directory: File,
}

/// What a sandbox is made from, and others may want to remove.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Uses {
    pub image: Option<String>,
    pub volumes: Vec<VolumeName>,
    /// For each disk it starts from, the topmost first, the last generation to use.
    #[serde(default)]
    pub bases: Vec<u32>,
    /// The image below those disks.
    #[serde(default)]
    pub origin: Option<String>,
}

impl Directories {
    pub fn new(home: &Home) -> Self {
        Self {
            sandboxes: home.sandboxes(),
            guest: home.guest(),
            images: home.images(),
            disks: home.disks(),
            volumes: home.volumes(),
            snapshots: home.snapshots(),
        }
    }

    /// Makes the directory of a sandbox, with the mark of our instance. Only our user may enter its parents.
    pub fn make_dir(&self, sandbox: &SandboxId, instance: &InstanceId) -> io::Result<SandboxDir> {
        private(&self.sandboxes)?;
        let path = self.place(sandbox);
        private(&path)?;
        mark::put(&path, instance)?;
        Ok(SandboxDir { directory: File::open(&path)?, path })
    }

    /// Returns the path of a sandbox's directory, which need not exist.
    pub fn place(&self, sandbox: &SandboxId) -> PathBuf {
        self.sandboxes.join(sandbox.as_str())
    }

    /// Opens the directory of an existing sandbox.
    pub fn dir(&self, sandbox: &SandboxId) -> io::Result<SandboxDir> {
        let path = self.sandboxes.join(sandbox.as_str());
        Ok(SandboxDir { directory: File::open(&path)?, path })
    }

    pub fn connect(&self, sandbox: &SandboxId) -> io::Result<UnixStream> {
        place::connect(&self.sandboxes.join(sandbox.as_str()), SOCKET)
    }

    /// Returns the file that records the first process of a sandbox.
    pub fn first(&self, sandbox: &SandboxId) -> PathBuf {
        self.sandboxes.join(sandbox.as_str()).join(FIRST)
    }

    /// Returns why a guest ended, as it wrote it, and when.
    pub fn end(&self, sandbox: &SandboxId) -> Option<(End, SystemTime)> {
        let path = self.sandboxes.join(sandbox.as_str()).join(END);
        let end = End::from_byte(*fs::read(&path).ok()?.first()?)?;
        Some((end, fs::metadata(&path).ok()?.modified().ok()?))
    }

    /// Tells whether a sandbox keeps its files in a plain directory here.
    pub fn has_plain_storage(&self, sandbox: &SandboxId) -> bool {
        self.sandboxes.join(sandbox.as_str()).join(STORAGE).symlink_metadata().is_ok()
    }

    /// Tells whether the files of a sandbox are here, on a disk or in a plain directory.
    pub fn has_files(&self, sandbox: &SandboxId) -> bool {
        let disk = self.sandboxes.join(sandbox.as_str()).join(DISK);
        self.has_plain_storage(sandbox) || disk.symlink_metadata().is_ok()
    }

    /// Tells whether the sandbox has anything here.
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
            if let Some(uses) = self.uses_of(&sandbox)? {
                all.insert(sandbox, uses);
            }
        }
        Ok(all)
    }

    /// Returns what one sandbox uses.
    pub fn uses_of(&self, sandbox: &SandboxId) -> io::Result<Option<Uses>> {
        match fs::read(self.sandboxes.join(sandbox.as_str()).join(USES)) {
            // It is written before anything is used: without it, nothing is.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            text => serde_json::from_slice(&text?).map(Some).map_err(|error| {
                io::Error::other(format!("what sandbox `{sandbox}` uses cannot be read ({error}): close it"))
            }),
        }
    }

    /// Returns the disks of a sandbox, its own first, and the device each was mounted from.
    pub fn disks(&self, sandbox: &SandboxId) -> Vec<(PathBuf, PathBuf)> {
        let path = self.sandboxes.join(sandbox.as_str());
        let names = std::iter::once(DISK.to_owned()).chain((0..BASES_MAX).map(base));
        let known = |name: String| {
            let device = fs::read_to_string(path.join(device_of(&name))).ok()?;
            Some((path.join(name), PathBuf::from(device)))
        };
        names.map_while(known).collect()
    }

    /// Returns the directory for nameless files, which get a name in a sandbox's directory later.
    pub fn nameless(&self) -> &Path {
        &self.sandboxes
    }

    /// Removes the sandbox's directory, whatever was written to it. Succeeds if it is missing.
    pub fn remove(&self, sandbox: &SandboxId) -> io::Result<()> {
        let parent = match File::open(&self.sandboxes) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            parent => parent?,
        };
        let name = CString::new(sandbox.as_str()).map_err(io::Error::other)?;
        tree::remove(parent.as_fd(), &name)
    }
}

impl SandboxDir {
    pub fn listen(&self) -> io::Result<UnixListener> {
        // The socket of an earlier guest.
        match fs::remove_file(self.path.join(SOCKET)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        UnixListener::bind(short_path(&self.directory, SOCKET))
    }

    /// Makes the file the guest writes its end to. It already has its byte, because a full disk may have no room
    /// for one.
    pub fn make_end(&self) -> io::Result<File> {
        let path = self.path.join(END);
        let has_ended = fs::read(&path).is_ok_and(|bytes| bytes.first().is_some_and(|byte| *byte != 0));
        fs::write(&path, [0])?;
        let file = File::options().write(true).open(path)?;
        if has_ended {
            // After a power cut, what the last guest said of its files must not be taken for the word of this one.
            file.sync_all()?;
        }
        Ok(file)
    }

    /// Records what the sandbox is made from, before it is made.
    pub fn note(&self, uses: &Uses) -> io::Result<()> {
        // Complete or not at all: readers decide by it what may be removed.
        let draft = self.path.join(".uses");
        fs::write(&draft, serde_json::to_vec(uses)?)?;
        fs::rename(draft, self.path.join(USES))
    }

    /// Returns the path of its disk.
    pub fn disk(&self) -> PathBuf {
        self.path.join(DISK)
    }

    /// Returns the path of a disk the sandbox starts from.
    pub fn base(&self, index: usize) -> PathBuf {
        self.path.join(base(index))
    }

    /// Gives a disk that the sandbox starts from a name here: it stays while it has a name.
    pub fn link_base(&self, index: usize, disk: &File) -> io::Result<()> {
        use coracle_sys::rustix::fs::{AtFlags, CWD, linkat};
        let source = format!("/proc/self/fd/{}", disk.as_raw_fd());
        Ok(linkat(CWD, source, &self.directory, base(index), AtFlags::SYMLINK_FOLLOW)?)
    }

    /// Records the device a disk is mounted from.
    pub fn note_device(&self, disk: &Path, device: &Path) -> io::Result<()> {
        let name = disk.file_name().unwrap_or_default().to_string_lossy();
        fs::write(self.path.join(device_of(&name)), device.as_os_str().as_encoded_bytes())
    }

    /// Returns the directory for its files where there is no disk.
    pub fn storage(&self) -> PathBuf {
        self.path.join(STORAGE)
    }

    /// Makes the directory for its files where there is no disk. They belong to `owner`, or to us.
    pub fn make_storage(&self, owner: Option<u32>) -> io::Result<PathBuf> {
        let directory = self.storage();
        DirBuilder::new().mode(0o755).create(&directory)?;
        // Independent of the caller's umask.
        fs::set_permissions(&directory, fs::Permissions::from_mode(0o755))?;
        if owner.is_some() {
            std::os::unix::fs::chown(&directory, owner, owner)?;
        }
        Ok(directory)
    }
}

fn base(index: usize) -> String {
    format!("base.{index}")
}

fn device_of(disk: &str) -> String {
    format!("{disk}.device")
}
