//! The network of sandboxes: sees to it that each has a keeper, tells what was refused, and forwards ports.
//!
//! What a keeper does is in the crate `egress`; `guest.rs` is how it gets at its guest.

mod forward;
mod guest;
mod proxy_watch;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use coracle_core::network::listener::listeners;
use coracle_core::network::{Caps, Denial};
use coracle_core::{Error, Kind, Record, Result, SandboxId};
use coracle_egress::directory::{self, is_kept};
pub use coracle_egress::{denials, keeper, weak};
use coracle_wire::ExecState;

use self::guest::KeptGuest;
pub(crate) use self::proxy_watch::ProxyWatch;
use crate::access::Access;
use crate::records::Records;

/// A keeper is there in milliseconds; a machine that swaps needs seconds.
const PATIENCE: Duration = Duration::from_secs(10);
/// Between looks at a keeper that another process is just starting, or that is just ending.
const PAUSE: Duration = Duration::from_millis(2);
/// How much the guest's idea of when an exec began may differ from ours: the time a message takes.
const SLACK_MS: u64 = 20;

/// Starts keepers, in whatever way this process can.
pub trait Start: Send + Sync {
    /// Starts one and returns when it serves, or when it has ended because there is one already.
    fn start(&self, egress: &Egress, sandbox: &SandboxId, directory: &Path) -> Result<()>;
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
    fn ensure(&self, egress: &Egress, record: &Record) -> Result<()> {
        let place = self.directory(&record.id);
        let deadline = Instant::now() + PATIENCE;
        loop {
            match directory::hold(&place, record.network()) {
                Ok(true) => return Ok(()),
                Ok(false) => return Err(failed(&record.id, io::ErrorKind::InvalidInput.into())),
                Err(error) if Instant::now() > deadline => return Err(failed(&record.id, error)),
                Err(_) => {}
            }
            let made = directory::make(&self.root).and_then(|()| directory::make(&place));
            made.map_err(|error| failed(&record.id, error))?;
            match is_kept(&place).map_err(|error| failed(&record.id, error))? {
                true => {}
                false => self.start.start(egress, &record.id, &place)?,
            }
            // One that came to be answers now; others may have ended because another process was faster.
            std::thread::sleep(PAUSE);
        }
    }

    /// Ends the keeper of a sandbox and removes what it has left.
    fn end(&self, sandbox: &SandboxId) -> Result<()> {
        let place = self.directory(sandbox);
        let deadline = Instant::now() + PATIENCE;
        let ended = loop {
            match directory::end(&place).and_then(|()| fs::remove_dir_all(&place)) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => break Ok(()),
                // Another process looked for a keeper meanwhile, and the lock is there again.
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

/// The networks of a home's sandboxes.
#[derive(Debug, Clone)]
pub struct Egress {
    records: Arc<Records>,
    access: Arc<Access>,
    keepers: Option<Keepers>,
    caps: Caps,
}

impl Egress {
    pub(crate) fn new(
        records: Arc<Records>,
        access: Arc<Access>,
        keepers: Option<Keepers>,
        caps: Caps,
    ) -> Self {
        Self { records, access, keepers, caps }
    }

    /// Makes sure that a sandbox with a network has a keeper.
    pub(crate) fn keep(&self, record: &Record) -> Result<()> {
        if record.spec.network.is_none() {
            return Ok(());
        }
        match &self.keepers {
            Some(keepers) => keepers.ensure(self, record),
            None => Err(Error::new(Kind::Unsupported, "this process cannot start egress proxies")),
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
        let Some(keepers) = &self.keepers else { return Ok(()) };
        if is_kept(&keepers.directory(sandbox)).map_err(|error| failed(sandbox, error))? {
            return Ok(());
        }
        // As the row has it now: the network may have been narrowed.
        match self.records.store().find(sandbox)? {
            Some(record) if record.state.accepts_work() => self.keep(&record),
            Some(_) | None => Ok(()),
        }
    }

    /// Ends the keeper of a sandbox.
    pub(crate) fn unkeep(&self, sandbox: &SandboxId) -> Result<()> {
        self.keepers.as_ref().map_or(Ok(()), |keepers| keepers.end(sandbox))
    }

    /// Lists the sandboxes that have, or had, a keeper.
    pub(crate) fn kept(&self) -> Result<Vec<SandboxId>> {
        self.keepers.as_ref().map_or(Ok(Vec::new()), Keepers::list)
    }

    /// Returns what a sandbox was refused, oldest first.
    pub fn denials(&self, record: &Record) -> Vec<denials::Entry> {
        match &self.keepers {
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

    /// Returns what was refused while an exec ran, by the clock, each thing once.
    pub(crate) fn denied_during(&self, record: &Record, state: &ExecState) -> Vec<Denial> {
        let Some(age) = state.age_ms else { return Vec::new() };
        let began = self.records.now().as_millis().saturating_sub(age + SLACK_MS);
        let ended = began + state.duration_ms + 2 * SLACK_MS;
        let during = |entry: &denials::Entry| (began..=ended).contains(&entry.at.as_millis());
        distinct(self.denials(record).into_iter().filter(during))
    }

    /// Holds the network of a sandbox in this process, until it ends.
    pub fn keep_here(&self, sandbox: &SandboxId, body: keeper::Body, ready: impl FnOnce()) -> Result<()> {
        let keepers = self.keepers.as_ref();
        let directory = keepers.map(|keepers| keepers.directory(sandbox));
        match directory {
            Some(directory) => keeper::keep(&directory, body, || self.terms(sandbox), ready),
            None => Err(Error::new(Kind::Unsupported, "there is no place for keepers here")),
        }
    }

    /// Returns what the keeper of a sandbox has to know. Fails if the sandbox has ended.
    fn terms(&self, sandbox: &SandboxId) -> Result<keeper::Terms> {
        let record = self.records.find(sandbox)?;
        if record.state.is_ended() {
            return Err(record.state.refuse(sandbox, "hold the network of"));
        }
        Ok(keeper::Terms {
            listeners: listeners(&record.spec.network),
            network: record.network().clone(),
            caps: self.caps,
            clock: self.records.clock().clone(),
            guest: Arc::new(KeptGuest { access: self.access.clone(), record }),
        })
    }
}

/// Starts keepers as threads of this process: for programs that use the library and stay.
#[derive(Debug, Clone, Copy, Default)]
pub struct Threads;

impl Start for Threads {
    fn start(&self, egress: &Egress, sandbox: &SandboxId, _: &Path) -> Result<()> {
        let (ready, told) = std::sync::mpsc::sync_channel(1);
        let (egress, id) = (egress.clone(), sandbox.clone());
        let work = move || {
            // The closed channel tells the waiting call that it did not come to be.
            let _ = egress.keep_here(&id, keeper::Body::Thread, || {
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
