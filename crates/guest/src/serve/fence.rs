//! The fence: refuses callers that show an epoch older than the highest seen, here at the resource itself. It also
//! keeps changes out while the sandbox is paused, or held while its files are copied.

use std::sync::{
    Condvar, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, TryLockError,
};
use std::time::{Duration, Instant};

use coracle_wire::{Fault, FaultCode};

/// How long a change waits while the sandbox is held. Shorter than callers wait for an answer, longer than a hold
/// lasts without renewal.
const PATIENCE: Duration = Duration::from_secs(15);
/// How soon to look again at a hold that is over but must wait for operations in progress.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// The highest epoch seen, and whether changes are admitted. Each operation holds the lock for reading, so that
/// raising the epoch or stopping changes waits until no operation is in progress.
#[derive(Debug)]
pub struct Fence {
    state: RwLock<FenceState>,
    /// Changes only together with `state.calm`; take its lock after that one.
    held: Mutex<Option<Grip>>,
    let_go: Condvar,
}

/// Which connection holds the sandbox, and until when.
#[derive(Debug, Clone, Copy)]
pub struct Grip {
    /// The connection that asked for the hold.
    pub connection: u64,
    /// When the hold ends by itself. Without it, the hold ends with the connection.
    pub until: Option<Instant>,
}

/// The state that the fence's lock guards.
#[derive(Debug)]
pub struct FenceState {
    epoch: u64,
    pub calm: Calm,
}

/// What happens to changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Calm {
    /// The guest makes them.
    No,
    /// The guest refuses them until a caller resumes the sandbox.
    Paused,
    /// They wait, because a hold is short. Afterwards the sandbox is paused or not, as before.
    Held { paused: bool },
}

impl FenceState {
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    pub fn is_paused(&self) -> bool {
        matches!(self.calm, Calm::Paused | Calm::Held { paused: true })
    }
}

impl Fence {
    pub fn new(epoch: u64) -> Self {
        let state = RwLock::new(FenceState { epoch, calm: Calm::No });
        Self { state, held: Mutex::new(None), let_go: Condvar::new() }
    }

    pub fn epoch(&self) -> u64 {
        self.read().epoch
    }

    /// Admits a read under `epoch`, for as long as the guard lives. A newer epoch raises the fence.
    pub fn admit(&self, epoch: u64) -> Result<RwLockReadGuard<'_, FenceState>, Fault> {
        loop {
            let state = self.read();
            if epoch == state.epoch {
                return Ok(state);
            }
            drop(state);
            drop(self.raise(epoch)?);
        }
    }

    /// Admits a change once the sandbox is not held. Refuses it while the sandbox is paused.
    pub fn admit_change(&self, epoch: u64) -> Result<RwLockReadGuard<'_, FenceState>, Fault> {
        let state = self.admit_stop(epoch)?;
        match state.calm {
            Calm::Paused => Err(conflict("the sandbox is paused")),
            Calm::No | Calm::Held { .. } => Ok(state),
        }
    }

    /// Admits the end of an exec once the sandbox is not held, also while it is paused: a cancelled command must not go
    /// on when the sandbox is resumed.
    pub fn admit_stop(&self, epoch: u64) -> Result<RwLockReadGuard<'_, FenceState>, Fault> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let state = self.admit(epoch)?;
            match state.calm {
                Calm::No | Calm::Paused => return Ok(state),
                Calm::Held { .. } => drop(state),
            }
            self.wait_until_let_go(deadline)?;
        }
    }

    /// Waits until no operation is in progress and the sandbox is not held, and keeps it so while the guard lives.
    pub fn still(&self, epoch: u64) -> Result<RwLockWriteGuard<'_, FenceState>, Fault> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let state = self.raise(epoch)?;
            if !matches!(state.calm, Calm::Held { .. }) {
                return Ok(state);
            }
            drop(state);
            self.wait_until_let_go(deadline)?;
        }
    }

    /// Makes changes wait from now on.
    pub fn hold(&self, state: &mut FenceState, grip: Grip) {
        state.calm = Calm::Held { paused: state.calm == Calm::Paused };
        *self.grip() = Some(grip);
    }

    /// Gives a hold another end. Fails if it is over: the sandbox may have changed, and the holder has to know.
    pub fn renew(&self, grip: Grip) -> Result<(), Fault> {
        match self.grip().as_mut().filter(|held| held.connection == grip.connection) {
            Some(held) => held.until = grip.until,
            None => return Err(conflict("the sandbox is not held any more: it was not renewed in time")),
        }
        Ok(())
    }

    /// Ends the hold of a connection. Calls `settle` first, with whether the sandbox is paused.
    pub fn let_go(&self, connection: u64, settle: impl FnOnce(bool)) {
        let state = self.write();
        if self.grip().take_if(|held| held.connection == connection).is_some() {
            self.go_on(state, settle);
        }
    }

    /// Ends a hold whose time is over by `now`, as [`Fence::let_go`] does. Returns when to look again. Never
    /// blocks: the operations in progress may themselves wait for the calling thread.
    pub fn lapse(&self, now: Instant, settle: impl FnOnce(bool)) -> Option<Instant> {
        let until = self.grip().and_then(|held| held.until)?;
        if until > now {
            return Some(until);
        }
        let state = match self.state.try_write() {
            Ok(state) => state,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return Some(now + LOOK_AGAIN),
        };
        // Once the grip is taken it cannot be renewed any more. Only then may anything go on.
        let mut grip = self.grip();
        match grip.take_if(|held| held.until.is_some_and(|until| until <= now)) {
            Some(_) => {
                drop(grip);
                self.go_on(state, settle);
                None
            }
            None => grip.and_then(|held| held.until),
        }
    }

    fn go_on(&self, mut state: RwLockWriteGuard<'_, FenceState>, settle: impl FnOnce(bool)) {
        if let Calm::Held { paused } = state.calm {
            settle(paused);
            state.calm = if paused { Calm::Paused } else { Calm::No };
        }
        drop(state);
        self.let_go.notify_all();
    }

    fn grip(&self) -> MutexGuard<'_, Option<Grip>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn raise(&self, epoch: u64) -> Result<RwLockWriteGuard<'_, FenceState>, Fault> {
        let mut state = self.write();
        if epoch < state.epoch {
            let current = state.epoch;
            let message = format!("the request is from epoch {epoch}, now it is {current}");
            return Err(Fault { code: FaultCode::StaleEpoch { current }, message, errno: None });
        }
        state.epoch = epoch;
        Ok(state)
    }

    fn wait_until_let_go(&self, deadline: Instant) -> Result<(), Fault> {
        let left = deadline.saturating_duration_since(Instant::now());
        let waited = self.let_go.wait_timeout_while(self.grip(), left, |held| held.is_some());
        match waited.unwrap_or_else(PoisonError::into_inner).1.timed_out() {
            true => Err(conflict("the sandbox's files are being taken; try again")),
            false => Ok(()),
        }
    }

    fn read(&self) -> RwLockReadGuard<'_, FenceState> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, FenceState> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }
}

fn conflict(message: &str) -> Fault {
    Fault { code: FaultCode::Conflict, message: message.to_owned(), errno: None }
}
