//! The directories with the sockets of ssh connections: on short paths, and only our user may enter them.

use std::fmt::Write as _;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use coracle_core::{Error, Kind, Result};
use coracle_sys::rustix::process::geteuid;
use sha2::{Digest, Sha256};

use crate::BackendConfig;
use crate::docker::endpoint::{SOCKET_PATH_MAX, SshPlace, remote_socket};

const CONTROL: &str = "control";
const ENGINE: &str = "engine";
const LOCK: &str = "lock";
/// ssh's log, and the file for what its other programs write to standard error.
const LOG: &str = "log";
const TALK: &str = "talk";
const REMEMBERED: &str = "socket";
const PROCESS: &str = "process";
/// While ssh binds its control socket, the name is this much longer.
const DRAFT_SUFFIX: usize = 17;
/// The bytes of a directory's own name and of what is in it:
/// `/coracle-4294967295-01234567/0123456789abcdef/control`.
const BELOW: usize = 54;
/// ssh logs a line each time the container engine was unreachable; more of them say nothing new.
const LOG_MAX: u64 = 64 * 1024;
/// The time to connect (30 s), to ask (15 s) and for the first answer (10 s), twice over.
const TURN: Duration = Duration::from_secs(120);
const BETWEEN_LOOKS: Duration = Duration::from_millis(10);

/// Returns the directory for the sockets of an instance's connections, which need not exist.
///
/// It is not in the home, whose path may be too long for a socket.
pub fn directory(config: &BackendConfig) -> PathBuf {
    let user = geteuid();
    let own = config.engines.runtime_directory.iter();
    let own = own.filter(|path| fs::metadata(path).is_ok_and(|found| found.uid() == user.as_raw()));
    let machine = user.is_root().then(|| PathBuf::from("/run"));
    let candidates = own.cloned().chain(machine.filter(|path| path.is_dir()));
    let fits = |path: &PathBuf| path.as_os_str().len() + BELOW + DRAFT_SUFFIX <= SOCKET_PATH_MAX;
    let parent = { candidates }.find(fits).unwrap_or_else(|| "/tmp".into());
    let home = hex(config.home.path().as_os_str().as_encoded_bytes(), 4);
    parent.join(format!("coracle-{}-{home}", user.as_raw()))
}

/// The directory with the sockets of one connection.
#[derive(Debug)]
pub struct TunnelDir {
    path: PathBuf,
}

/// The right to make or end a connection, for as long as the value lives.
#[derive(Debug)]
pub struct Turn {
    _lock: File,
}

impl TunnelDir {
    /// Makes the directory of a connection: the same for the same machine and ssh, for every caller.
    pub fn of(runtime: &Path, place: &SshPlace, ssh: &[String]) -> Result<Self> {
        let name = hex(format!("{place}\0{}", ssh.join("\0")).as_bytes(), 8);
        let dir = Self { path: runtime.join(name) };
        dir.make()?;
        Ok(dir)
    }

    /// Returns the directories of all connections. The list is empty if the runtime directory does not exist.
    pub fn all(runtime: &Path) -> Result<Vec<Self>> {
        match fs::read_dir(runtime) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(unusable(runtime).caused_by(error)),
            Ok(_) => ours(runtime)?,
        }
        let entries = fs::read_dir(runtime).map_err(|error| unusable(runtime).caused_by(error))?;
        Ok(entries.flatten().map(|entry| Self { path: entry.path() }).collect())
    }

    fn make(&self) -> Result<()> {
        let runtime = self.path.parent().unwrap_or(Path::new("/"));
        ours(runtime)?;
        ours(&self.path)
    }

    /// Waits for our turn. Everything a holder does is bounded in time, so a longer wait is a fault.
    pub fn lock(&self) -> Result<Turn> {
        let deadline = Instant::now() + TURN;
        while Instant::now() < deadline {
            self.make()?;
            let path = self.path.join(LOCK);
            let lock = OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(&path);
            let lock = lock.map_err(|error| unusable(&self.path).caused_by(error))?;
            // A lock file that was removed while we waited locks out no other process.
            if lock.try_lock().is_ok() && same(&lock, &path) {
                return Ok(Turn { _lock: lock });
            }
            // The kernel cannot wait for a lock until a deadline.
            std::thread::sleep(BETWEEN_LOOKS);
        }
        Err(Error::new(
            Kind::NotAvailable,
            format!("timed out waiting for the lock in `{}`", self.path.display()),
        )
        .hint("another call of coracle is connecting and does not finish; end it"))
    }

    pub fn control(&self) -> PathBuf {
        self.path.join(CONTROL)
    }

    /// Returns the socket that leads to the container engine.
    pub fn engine(&self) -> PathBuf {
        self.path.join(ENGINE)
    }

    pub fn log(&self) -> PathBuf {
        self.path.join(LOG)
    }

    /// Opens the file for the programs' standard error.
    pub fn talk(&self) -> Result<File> {
        let file = OpenOptions::new().create(true).append(true).mode(0o600).open(self.path.join(TALK));
        file.map_err(|error| unusable(&self.path).caused_by(error))
    }

    /// Returns ssh's messages, from the beginning.
    pub fn words(&self) -> String {
        let mut text = Vec::new();
        for name in [LOG, TALK] {
            let file = File::open(self.path.join(name));
            let _ = file.and_then(|file| file.take(LOG_MAX).read_to_end(&mut text));
        }
        String::from_utf8_lossy(&text).into_owned()
    }

    /// Truncates the log when it is too long; ssh appends to it for as long as the connection lives.
    pub fn tend(&self) {
        if fs::metadata(self.log()).is_ok_and(|log| log.len() > LOG_MAX) {
            let _ = OpenOptions::new().write(true).truncate(true).open(self.log());
        }
    }

    /// Removes what a connection has left.
    pub fn clear(&self) {
        for name in [CONTROL, ENGINE, LOG, TALK, PROCESS] {
            let _ = fs::remove_file(self.path.join(name));
        }
    }

    /// Returns where the other machine said its container engine is.
    pub fn remembered(&self) -> Option<PathBuf> {
        remote_socket(&fs::read_to_string(self.path.join(REMEMBERED)).ok()?)
    }

    pub fn remember(&self, socket: &Path) -> Result<()> {
        let written = fs::write(self.path.join(REMEMBERED), socket.as_os_str().as_encoded_bytes());
        written.map_err(|error| unusable(&self.path).caused_by(error))
    }

    pub fn forget(&self) {
        let _ = fs::remove_file(self.path.join(REMEMBERED));
    }

    /// Records the process of the connection.
    pub fn note_process(&self, note: &str) -> Result<()> {
        fs::write(self.path.join(PROCESS), note).map_err(|error| unusable(&self.path).caused_by(error))
    }

    pub fn process(&self) -> Option<String> {
        fs::read_to_string(self.path.join(PROCESS)).ok()
    }

    pub fn remove(&self) -> Result<()> {
        fs::remove_dir_all(&self.path).map_err(|error| unusable(&self.path).caused_by(error))
    }
}

/// Removes the runtime directory if it is empty.
pub fn remove_empty(runtime: &Path) -> Result<()> {
    match fs::remove_dir(runtime) {
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::DirectoryNotEmpty) => {
            Ok(())
        }
        result => result.map_err(|error| unusable(runtime).caused_by(error)),
    }
}

/// Makes a directory, or checks that the existing one is ours alone: its parent may be writable by all users.
fn ours(path: &Path) -> Result<()> {
    match DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            return Err(unusable(path).caused_by(error));
        }
        Err(_) | Ok(()) => {}
    }
    let found = fs::symlink_metadata(path).map_err(|error| unusable(path).caused_by(error))?;
    match found.is_dir() && found.uid() == geteuid().as_raw() && found.mode() & 0o077 == 0 {
        true => Ok(()),
        false => Err(unusable(path)
            .hint("it belongs to another user or others may enter it; look at it and remove it")),
    }
}

fn same(file: &File, path: &Path) -> bool {
    let (Ok(open), Ok(named)) = (file.metadata(), fs::metadata(path)) else { return false };
    (open.dev(), open.ino()) == (named.dev(), named.ino())
}

fn hex(bytes: &[u8], length: usize) -> String {
    Sha256::digest(bytes)[..length].iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn unusable(path: &Path) -> Error {
    Error::new(Kind::NotAvailable, format!("could not use `{}` for sockets of ssh", path.display()))
        .hint("XDG_RUNTIME_DIR names the directory of this user's sockets")
}
