//! The network of sandboxes, as far as it is outside them: who holds it, what is let through, what was refused.
//!
//! Inside a sandbox there is nothing but places to connect to; see the guest's file of this name. Each connection comes
//! to a [`keeper`], which reads what it wants ([`head`], [`socks`], [`tls`]), asks the [`scope`], looks the name up and
//! checks the address ([`dial`]), and carries the bytes ([`carry`]).

pub mod body;
pub(crate) mod carry;
mod client;
mod control;
pub mod denials;
mod dial;
pub mod head;
pub mod keeper;
mod own;
pub(crate) mod pace;
mod scope;
pub mod socks;
pub mod tls;
mod told;
mod watchman;
pub mod weak;

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use coracle_core::network::Denial;
use coracle_core::{Error, Kind, Record, Result, SandboxId};
use coracle_wire::ExecState;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

pub(crate) use self::watchman::Watchman;
use crate::Engine;

const LOCK: &str = "lock";
/// A keeper is there in milliseconds; a machine that swaps needs seconds.
const PATIENCE: Duration = Duration::from_secs(10);
/// Between looks at a keeper that another process is just starting, or that is just ending.
const PAUSE: Duration = Duration::from_millis(2);

/// How much the guest's idea of when an exec began may differ from ours: the time a message takes.
const SLACK_MS: u64 = 20;

/// Starts keepers, in whatever way this process can.
pub trait Start: Send + Sync {
    /// Starts one and returns when it serves, or when it has ended because there is one already.
    fn start(&self, engine: &Engine, sandbox: &SandboxId, directory: &Path) -> Result<()>;
}

/// The keepers of a home: a directory for each sandbox that has a network.
#[derive(Clone)]
pub struct Keepers {
    root: PathBuf,
    start: Arc<dyn Start>,
}

impl std::fmt::Debug for Keepers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Keepers").field("root", &self.root).finish_non_exhaustive()
    }
}

impl Keepers {
    pub fn new(root: PathBuf, start: Arc<dyn Start>) -> Self {
        Self { root, start }
    }

    /// Returns where what belongs to the network of a sandbox lies.
    pub fn directory(&self, sandbox: &SandboxId) -> PathBuf {
        self.root.join(sandbox.as_str())
    }

    /// Has a keeper hold the network the record says, starting one if there is none.
    fn ensure(&self, engine: &Engine, record: &Record) -> Result<()> {
        let directory = self.directory(&record.id);
        let deadline = Instant::now() + PATIENCE;
        loop {
            match control::hold(&directory, record.network()) {
                Ok(true) => return Ok(()),
                Ok(false) => return Err(failed(&record.id, io::ErrorKind::InvalidInput.into())),
                Err(error) if Instant::now() > deadline => return Err(failed(&record.id, error)),
                Err(_) => {}
            }
            make(&self.root).and_then(|()| make(&directory)).map_err(|error| failed(&record.id, error))?;
            match is_kept(&directory).map_err(|error| failed(&record.id, error))? {
                true => {}
                false => self.start.start(engine, &record.id, &directory)?,
            }
            // One that came to be answers now; others may have ended because somebody was faster.
            std::thread::sleep(PAUSE);
        }
    }

    /// Ends the keeper of a sandbox and removes what it has left.
    fn end(&self, sandbox: &SandboxId) -> Result<()> {
        let directory = self.directory(sandbox);
        let deadline = Instant::now() + PATIENCE;
        let ended = loop {
            match end(&directory).and_then(|()| fs::remove_dir_all(&directory)) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => break Ok(()),
                // Somebody looked for a keeper meanwhile, and the lock is there again.
                Err(error)
                    if error.kind() == io::ErrorKind::DirectoryNotEmpty && Instant::now() < deadline =>
                {
                    std::thread::sleep(PAUSE);
                }
                ended => break ended,
            }
        };
        ended.map_err(|error| {
            Error::internal(format!("could not end the keeper of sandbox `{sandbox}`"), error)
        })
    }

    /// Lists the sandboxes that have something here.
    fn list(&self) -> Result<Vec<SandboxId>> {
        let entries = match fs::read_dir(&self.root) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(|error| Error::internal("could not list keepers", error))?,
        };
        Ok(entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect())
    }
}

impl Engine {
    /// Makes sure that a sandbox with a network has somebody to hold it.
    pub(crate) fn keep(&self, record: &Record) -> Result<()> {
        if record.spec.network.is_none() {
            return Ok(());
        }
        match &self.parts.keepers {
            Some(keepers) => keepers.ensure(self, record),
            None => Err(Error::new(Kind::Unsupported, "nobody here can hold the network of a sandbox")),
        }
    }

    /// Starts a keeper for each sandbox in use whose last one was killed. Returns what did not work.
    pub fn replace_keepers(&self) -> Vec<String> {
        let replaced = |id: SandboxId| match self.replace_keeper(&id) {
            Ok(()) => None,
            Err(error) => Some(format!("{id}: {}", error.chain())),
        };
        match self.kept() {
            Ok(kept) => kept.into_iter().filter_map(replaced).collect(),
            Err(error) => vec![error.chain()],
        }
    }

    /// Starts a keeper if there is none and the sandbox can be used.
    fn replace_keeper(&self, sandbox: &SandboxId) -> Result<()> {
        let Some(keepers) = &self.parts.keepers else { return Ok(()) };
        if is_kept(&keepers.directory(sandbox)).map_err(|error| failed(sandbox, error))? {
            return Ok(());
        }
        // As the row has it now: the network may have been narrowed.
        match self.store().find(sandbox)? {
            Some(record) if record.state.accepts_work() => self.keep(&record),
            Some(_) | None => Ok(()),
        }
    }

    /// Ends whoever holds the network of a sandbox.
    pub(crate) fn unkeep(&self, sandbox: &SandboxId) -> Result<()> {
        self.parts.keepers.as_ref().map_or(Ok(()), |keepers| keepers.end(sandbox))
    }

    /// Lists the sandboxes somebody holds, or held, the network of.
    pub(crate) fn kept(&self) -> Result<Vec<SandboxId>> {
        self.parts.keepers.as_ref().map_or(Ok(Vec::new()), Keepers::list)
    }

    /// Returns what a sandbox was refused, oldest first.
    pub fn denials(&self, record: &Record) -> Vec<denials::Entry> {
        match &self.parts.keepers {
            Some(keepers) if !record.spec.network.is_none() => denials::read(&keepers.directory(&record.id)),
            _ => Vec::new(),
        }
    }

    /// Returns the number of the last refusal.
    pub(crate) fn last_denial(&self, record: &Record) -> u64 {
        self.denials(record).last().map_or(0, |entry| entry.seq)
    }

    /// Returns what was refused after a number, each thing once.
    pub(crate) fn denied_since(&self, record: &Record, seq: u64) -> Vec<Denial> {
        distinct(self.denials(record).into_iter().filter(|entry| entry.seq > seq))
    }

    /// Returns the number of a sandbox's last refusal, to ask by it later what was refused since.
    pub fn denied_so_far(&self, sandbox: &SandboxId) -> Result<u64> {
        Ok(self.last_denial(&self.find(sandbox)?))
    }

    /// Returns what was refused since then, each thing once.
    pub fn denied_after(&self, sandbox: &SandboxId, seq: u64) -> Vec<Denial> {
        self.find(sandbox).map_or_else(|_| Vec::new(), |record| self.denied_since(&record, seq))
    }

    /// Returns what was refused while an exec ran, by the clock, each thing once.
    pub(crate) fn denied_during(&self, record: &Record, state: &ExecState) -> Vec<Denial> {
        let Some(age) = state.age_ms else { return Vec::new() };
        let began = self.parts.clock.now().as_millis().saturating_sub(age + SLACK_MS);
        let ended = began + state.duration_ms + 2 * SLACK_MS;
        let during = |entry: &denials::Entry| (began..=ended).contains(&entry.at.as_millis());
        distinct(self.denials(record).into_iter().filter(during))
    }

    /// Holds the network of a sandbox in this process, until it ends.
    pub fn keep_here(&self, sandbox: &SandboxId, body: keeper::Body, ready: impl FnOnce()) -> Result<()> {
        let keepers = self.parts.keepers.as_ref();
        let directory = keepers.map(|keepers| keepers.directory(sandbox));
        match directory {
            Some(directory) => keeper::keep(self, sandbox, &directory, body, ready),
            None => Err(Error::new(Kind::Unsupported, "there is no place for keepers here")),
        }
    }
}

/// Starts keepers as threads of this process: for programs that use the library and stay.
#[derive(Debug, Clone, Copy, Default)]
pub struct Threads;

impl Start for Threads {
    fn start(&self, engine: &Engine, sandbox: &SandboxId, _: &Path) -> Result<()> {
        let (ready, told) = std::sync::mpsc::sync_channel(1);
        let (engine, id) = (engine.clone(), sandbox.clone());
        let work = move || {
            // Whoever waits learns by the channel closing that it did not come to be.
            let _ = engine.keep_here(&id, keeper::Body::Thread, || {
                let _ = ready.send(());
            });
        };
        std::thread::Builder::new().spawn(work).map_err(|error| failed(sandbox, error))?;
        let _ = told.recv_timeout(PATIENCE);
        Ok(())
    }
}

/// Returns each refusal once, in the order they came.
fn distinct(entries: impl Iterator<Item = denials::Entry>) -> Vec<Denial> {
    let mut denied = Vec::new();
    for entry in entries {
        if !denied.contains(&entry.denial) {
            denied.push(entry.denial);
        }
    }
    denied
}

fn failed(sandbox: &SandboxId, error: io::Error) -> Error {
    Error::new(Kind::StartFailed, format!("could not hold the network of sandbox `{sandbox}`"))
        .caused_by(error)
        .hint("`doctor` shows what this machine lacks")
}

/// Makes a directory nobody else may enter.
fn make(directory: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(directory) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}

fn open_lock(directory: &Path) -> io::Result<File> {
    File::options().read(true).write(true).create(true).truncate(false).open(directory.join(LOCK))
}

/// Tells whether somebody holds the lock.
fn is_kept(directory: &Path) -> io::Result<bool> {
    match open_lock(directory)?.try_lock() {
        Ok(()) => Ok(false),
        Err(fs::TryLockError::WouldBlock) => Ok(true),
        Err(fs::TryLockError::Error(error)) => Err(error),
    }
}

/// Asks the keeper to end and waits until it has; one that does not is killed.
fn end(directory: &Path) -> io::Result<()> {
    if !directory.exists() {
        return Ok(());
    }
    let _ = control::end(directory);
    let deadline = Instant::now() + PATIENCE;
    let mut killed = false;
    while is_kept(directory)? {
        if Instant::now() > deadline {
            if killed {
                return Err(io::ErrorKind::TimedOut.into());
            }
            kill(directory)?;
            killed = true;
        }
        std::thread::sleep(PAUSE);
    }
    Ok(())
}

/// Returns the number of the process that holds the lock, or held it last; nothing where it is no process of its own.
fn keeper_in(directory: &Path) -> Option<i32> {
    fs::read_to_string(directory.join(LOCK)).ok()?.parse().ok().filter(|pid| *pid > 0)
}

/// Kills the process that holds the lock.
fn kill(directory: &Path) -> io::Result<()> {
    if let Some(handle) = holder(directory)? {
        let _ = pidfd_send_signal(&handle, Signal::KILL);
    }
    Ok(())
}

/// Returns a handle of the process that holds the lock. Numbers are used again, so its number is read once more when there
/// is a handle: while the lock says the same and is held, the handle is of its holder.
fn holder(directory: &Path) -> io::Result<Option<OwnedFd>> {
    let written = || keeper_in(directory);
    let Some(pid) = written().and_then(Pid::from_raw) else { return Ok(None) };
    let Ok(handle) = pidfd_open(pid, PidfdFlags::empty()) else { return Ok(None) };
    let is_its = is_kept(directory)? && written() == Some(pid.as_raw_nonzero().get());
    Ok(is_its.then_some(handle))
}
