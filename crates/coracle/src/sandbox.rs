//! The ownership of a sandbox, as a value the compiler checks.

use std::ffi::OsStr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use coracle_core::{Epoch, Error, ExecId, Result, RunId, SandboxId};
use coracle_engine::ops::sandbox::{close, exec_wait, get, release, transfer};
use coracle_engine::progress::Progress;
use coracle_engine::{Attached, Caller, Captured, Control, Depth, Entries, FileEntry, Follow};

use crate::{Command, Coracle, Files};

/// Connections kept for the next operation: one for each of a few threads; a guest does not accept many more.
const IDLE_MAX: usize = 4;

/// A sandbox this run owns.
///
/// Not `Clone`: the holder of the value owns the sandbox. It acts under the epoch it was taken at, so a handle kept
/// past a change of owner is refused. Dropping it changes nothing: the sandbox stays, idle, until its `ttl` is over
/// or it is opened again by its key.
///
/// Operations take `&self` and may come from several threads; each uses a connection of its own, kept for the next.
#[derive(Debug)]
pub struct Sandbox {
    coracle: Coracle,
    caller: Caller,
    id: SandboxId,
    epoch: Epoch,
    idle: Mutex<Vec<Attached>>,
}

impl Sandbox {
    /// Connects to a sandbox that this run owns at `epoch`.
    pub(crate) fn enter(coracle: &Coracle, id: SandboxId, epoch: Epoch) -> Result<Self> {
        let caller = coracle.under(Some(epoch));
        let attached = coracle.engine().execs().attach(&caller, &id)?;
        Ok(Self { coracle: coracle.clone(), caller, id, epoch, idle: Mutex::new(vec![attached]) })
    }

    pub fn id(&self) -> &SandboxId {
        &self.id
    }

    /// Returns the run that owns it: the one that opened it.
    pub fn owner(&self) -> &RunId {
        &self.caller.claim.run
    }

    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// Runs a command to its end.
    pub fn exec(&self, command: impl Into<Command>) -> Result<Captured> {
        let command = command.into();
        self.attached(|attached| attached.exec(command.request()))
    }

    /// Starts a command and returns at once. The command outlives this process, and has no deadline by default.
    pub fn start(&self, command: impl Into<Command>) -> Result<ExecId> {
        let mut request = command.into().request().clone();
        request.timeout = request.timeout.in_background();
        let started = self.attached(|attached| attached.exec_start(&request))?;
        Ok(started.exec_id)
    }

    /// Reads the output of an exec after chunk `since_seq`, as it appears.
    pub fn follow(&self, exec: &ExecId, since_seq: u64) -> Result<Follow> {
        self.coracle.engine().execs().follow(&self.caller, &self.id, exec, since_seq)
    }

    /// Takes control of an exec: standard input, signals, terminal size, stopping.
    pub fn control(&self, exec: &ExecId) -> Result<Control> {
        self.coracle.engine().execs().control(&self.caller, &self.id, exec)
    }

    /// Waits for the end of an exec.
    pub fn wait(&self, exec: &ExecId) -> Result<Progress> {
        let input = exec_wait::Input {
            sandbox_id: self.id.clone(),
            exec_id: exec.clone(),
            timeout_seconds: None,
            timeout_ms: None,
        };
        Ok(self.coracle.engine().perform(&self.caller, input)?.progress)
    }

    /// Returns a handle whose file operations act as this user of the sandbox instead of the one commands run as.
    /// `root` may do everything.
    pub fn files_as(&self, user: impl Into<String>) -> Files<'_> {
        Files::of(self, Some(user.into()))
    }

    fn files(&self) -> Files<'_> {
        Files::of(self, None)
    }

    /// Writes a whole file, replacing an existing one; the old file stays until the new one is complete.
    ///
    /// Relative paths start at the workspace and may not leave it; missing directories are made. A replaced file
    /// keeps its permissions, and a link is followed.
    pub fn write_file(&self, path: impl AsRef<OsStr>, contents: impl AsRef<[u8]>) -> Result<()> {
        self.files().write(path, contents)
    }

    /// Returns the contents of a file.
    pub fn read_file(&self, path: impl AsRef<OsStr>) -> Result<Vec<u8>> {
        self.files().read(path)
    }

    /// Lists a directory, or everything below it.
    pub fn list(&self, path: impl AsRef<OsStr>, depth: Depth) -> Result<Entries> {
        self.files().list(path, depth)
    }

    /// Returns one entry; a symlink is not followed.
    pub fn stat(&self, path: impl AsRef<OsStr>) -> Result<FileEntry> {
        self.files().stat(path)
    }

    /// Removes a file, or with [`Depth::Tree`] a directory with its contents.
    pub fn delete(&self, path: impl AsRef<OsStr>, depth: Depth) -> Result<()> {
        self.files().delete(path, depth)
    }

    /// Returns everything coracle knows about it.
    pub fn show(&self) -> Result<get::Output> {
        self.coracle.engine().perform(&self.caller, get::Input { sandbox_id: self.id.clone() })
    }

    /// Lends it to another run, which owns it until it gives it back. Refused while commands run.
    ///
    /// On an error the owner has not changed; [`Coracle::claim`] returns the value again.
    pub fn lend(self, to: RunId) -> Result<Lent> {
        let input = transfer::Input { sandbox_id: self.id.clone(), to: to.clone(), running: None };
        let lent = self.coracle.engine().perform(&self.caller, input)?;
        Ok(Lent { coracle: self.coracle, id: self.id, to, epoch: lent.epoch })
    }

    /// Gives it back to the run that lent it; without a lender it has no owner afterwards.
    ///
    /// On an error the owner has not changed; [`Coracle::claim`] returns the value again.
    pub fn release(self) -> Result<()> {
        let input = release::Input { sandbox_id: self.id, running: None };
        self.coracle.engine().perform(&self.caller, input).map(drop)
    }

    /// Destroys it. Closing an ended sandbox succeeds.
    ///
    /// On an error the caller or the janitor can repeat the removal.
    pub fn close(self) -> Result<()> {
        let input = close::Input { sandbox_id: self.id, delete_workspace: false, forget: false };
        self.coracle.engine().perform(&self.caller, input).map(drop)
    }

    /// Acts on a connection that no other thread uses meanwhile.
    pub(crate) fn attached<T>(&self, act: impl FnOnce(&mut Attached) -> Result<T>) -> Result<T> {
        let spare = self.idle().pop();
        let mut attached = match spare {
            Some(attached) => attached,
            None => self.coracle.engine().execs().attach(&self.caller, &self.id)?,
        };
        let done = act(&mut attached);
        let mut idle = self.idle();
        if idle.len() < IDLE_MAX {
            idle.push(attached);
        }
        done
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Attached>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A sandbox that this run has lent and gets back.
#[derive(Debug)]
pub struct Lent {
    coracle: Coracle,
    id: SandboxId,
    to: RunId,
    epoch: Epoch,
}

impl Lent {
    pub fn id(&self) -> &SandboxId {
        &self.id
    }

    /// Returns the run it was lent to.
    pub fn to(&self) -> &RunId {
        &self.to
    }

    /// Returns the epoch under which the other run owns it.
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// Returns the sandbox once the other run has given it back.
    pub fn take_back(self) -> Result<Sandbox, Box<StillLent>> {
        match self.coracle.claim(&self.id) {
            Ok(sandbox) => Ok(sandbox),
            Err(reason) => Err(Box::new(StillLent { lent: self, reason })),
        }
    }
}

/// The other run has not given the sandbox back.
#[derive(Debug)]
pub struct StillLent {
    pub lent: Lent,
    pub reason: Error,
}

impl std::fmt::Display for StillLent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "sandbox `{}` was not given back", self.lent.id)
    }
}

impl std::error::Error for StillLent {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.reason)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use coracle_core::{Kind, Policy, Store};
    use coracle_engine::{CrashPoints, Engine, Parts};
    use coracle_testing::{FakeBackend, FakeStore};

    use super::*;
    use crate::SpecInput;
    use crate::assemble::SystemClock;

    fn run(name: &str) -> RunId {
        name.parse().expect("a run id")
    }

    fn coracle() -> Coracle {
        let store = FakeStore::new();
        let backend = FakeBackend::new(store.instance().expect("a fake has an instance"));
        let engine = Engine::new(Parts {
            store: Arc::new(store),
            backends: coracle_engine::Roster::of(vec![Arc::new(backend)]),
            clock: Arc::new(SystemClock),
            policy: Policy::default(),
            boot: "boot".to_owned(),
            crash: CrashPoints::default(),
            keepers: None,
            logs: None,
            packages: None,
            disk: None,
            claims: None,
            repos: Arc::new(coracle_testing::FakeRepos::default()),
        });
        Coracle { engine, caller: Caller::acting_as(run("run_a")), pool: None }
    }

    #[test]
    fn files_and_commands_share_the_sandbox() {
        let sandbox = coracle().create(SpecInput::default()).expect("a sandbox");

        sandbox.write_file("note", "kept\n").expect("written");
        let shown = sandbox.exec(["cat", "note"]).expect("ran");

        assert_eq!((shown.stdout.as_slice(), shown.progress.exit_code), (&b"kept\n"[..], Some(0)));
        assert_eq!(sandbox.read_file("note").expect("read"), b"kept\n");
        sandbox.close().expect("closed");
    }

    #[test]
    fn an_image_is_brought_before_it_is_needed() {
        let ours = coracle();

        let refused = ours.pull("python:3.12").expect_err("the fake registry is empty");

        assert_eq!(refused.kind, Kind::ImageNotFound);
        assert_eq!(ours.images().expect("listed"), []);
    }

    #[test]
    fn a_lent_sandbox_comes_back_when_it_is_released_and_not_before() {
        let ours = coracle();
        let theirs = ours.acting_as(run("run_b"));
        let sandbox = ours.create(SpecInput::default()).expect("a sandbox");
        let (id, first) = (sandbox.id().clone(), sandbox.epoch());

        let lent = sandbox.lend(run("run_b")).expect("lent");
        let still = lent.take_back().expect_err("it is lent out");
        assert_eq!(still.reason.kind, Kind::LentOut);
        let borrowed = theirs.claim(&id).expect("the borrower owns it");
        borrowed.exec(["true"]).expect("ran");
        borrowed.release().expect("given back");
        let back = still.lent.take_back().expect("it is back");

        assert!(back.epoch() > first);
        back.exec(["true"]).expect("ran");
        back.close().expect("closed");
    }

    #[test]
    fn a_handle_from_before_a_hand_over_is_refused_after_the_return() {
        let ours = coracle();
        let theirs = ours.acting_as(run("run_b"));
        let old = ours.create(SpecInput::default()).expect("a sandbox");
        let id = old.id().clone();
        // What the compiler forbids on one handle, a second handle of the same tenure could still do.
        let twin = ours.claim(&id).expect("the owner may claim");

        twin.lend(run("run_b")).expect("lent");
        theirs.claim(&id).expect("owned").release().expect("given back");
        let refused = old.exec(["true"]).expect_err("the handle is stale");

        assert_eq!(refused.kind, Kind::StaleEpoch);
    }

    #[test]
    fn several_threads_use_one_sandbox_at_once() {
        let sandbox = coracle().create(SpecInput::default()).expect("a sandbox");

        std::thread::scope(|scope| {
            for number in 0..8 {
                let sandbox = &sandbox;
                scope.spawn(move || {
                    let word = number.to_string();
                    let echoed = sandbox.exec(["echo", word.as_str()]).expect("ran");
                    assert_eq!(echoed.stdout, format!("{word}\n").into_bytes());
                });
            }
        });

        assert!(sandbox.idle().len() <= IDLE_MAX);
    }
}
