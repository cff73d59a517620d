//! The fence: whoever shows an epoch older than the highest seen is refused, here at the resource itself. It is also
//! where changes are kept out while the sandbox is paused, or held for its files to be taken.

use std::sync::{Condvar, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::{Duration, Instant};

use coracle_wire::{Fault, FaultCode};

/// How long a change waits for whoever holds the sandbox. Shorter than callers wait for an answer.
const PATIENCE: Duration = Duration::from_secs(8);

/// The highest epoch seen, and whether changes are admitted. What is being done holds the lock for reading, so that
/// raising the one and stopping the other waits until nothing is under way.
#[derive(Debug)]
pub struct Fence {
    standing: RwLock<Standing>,
    held: Mutex<bool>,
    let_go: Condvar,
}

/// What the lock guards.
#[derive(Debug)]
pub struct Standing {
    epoch: u64,
    pub calm: Calm,
}

/// What becomes of changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Calm {
    /// They are made.
    No,
    /// They are refused until somebody resumes.
    Paused,
    /// They wait: it does not take long. Afterwards it is paused or not, as before.
    Held { paused: bool },
}

impl Standing {
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    pub fn is_paused(&self) -> bool {
        matches!(self.calm, Calm::Paused | Calm::Held { paused: true })
    }
}

impl Fence {
    pub fn new(epoch: u64) -> Self {
        let standing = RwLock::new(Standing { epoch, calm: Calm::No });
        Self { standing, held: Mutex::new(false), let_go: Condvar::new() }
    }

    pub fn epoch(&self) -> u64 {
        self.read().epoch
    }

    /// Admits a look under `epoch`, for as long as the guard lives. A newer epoch raises the fence.
    pub fn admit(&self, epoch: u64) -> Result<RwLockReadGuard<'_, Standing>, Fault> {
        loop {
            let standing = self.read();
            if epoch == standing.epoch {
                return Ok(standing);
            }
            drop(standing);
            drop(self.raise(epoch)?);
        }
    }

    /// Admits a change, once nobody holds the sandbox and unless it is paused.
    pub fn admit_change(&self, epoch: u64) -> Result<RwLockReadGuard<'_, Standing>, Fault> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let standing = self.admit(epoch)?;
            match standing.calm {
                Calm::No => return Ok(standing),
                Calm::Paused => return Err(conflict("the sandbox is paused")),
                Calm::Held { .. } => drop(standing),
            }
            self.wait_until_let_go(deadline)?;
        }
    }

    /// Waits until nothing is under way and nobody holds the sandbox, and keeps it so while the guard lives.
    pub fn still(&self, epoch: u64) -> Result<RwLockWriteGuard<'_, Standing>, Fault> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let standing = self.raise(epoch)?;
            if !matches!(standing.calm, Calm::Held { .. }) {
                return Ok(standing);
            }
            drop(standing);
            self.wait_until_let_go(deadline)?;
        }
    }

    /// Has changes wait from now on.
    pub fn hold(&self, standing: &mut Standing) {
        standing.calm = Calm::Held { paused: standing.calm == Calm::Paused };
        *self.held.lock().unwrap_or_else(PoisonError::into_inner) = true;
    }

    /// Ends what [`Fence::hold`] began, after `settle`, which is told whether it is paused.
    pub fn let_go(&self, settle: impl FnOnce(bool)) {
        let mut standing = self.write();
        if let Calm::Held { paused } = standing.calm {
            settle(paused);
            standing.calm = if paused { Calm::Paused } else { Calm::No };
        }
        drop(standing);
        *self.held.lock().unwrap_or_else(PoisonError::into_inner) = false;
        self.let_go.notify_all();
    }

    fn raise(&self, epoch: u64) -> Result<RwLockWriteGuard<'_, Standing>, Fault> {
        let mut standing = self.write();
        if epoch < standing.epoch {
            let current = standing.epoch;
            let message = format!("the request is from epoch {epoch}, now it is {current}");
            return Err(Fault { code: FaultCode::StaleEpoch { current }, message, errno: None });
        }
        standing.epoch = epoch;
        Ok(standing)
    }

    fn wait_until_let_go(&self, deadline: Instant) -> Result<(), Fault> {
        let held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let left = deadline.saturating_duration_since(Instant::now());
        let waited = self.let_go.wait_timeout_while(held, left, |held| *held);
        match waited.unwrap_or_else(PoisonError::into_inner).1.timed_out() {
            true => Err(conflict("the sandbox's files are being taken; try again")),
            false => Ok(()),
        }
    }

    fn read(&self) -> RwLockReadGuard<'_, Standing> {
        self.standing.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Standing> {
        self.standing.write().unwrap_or_else(PoisonError::into_inner)
    }
}

fn conflict(message: &str) -> Fault {
    Fault { code: FaultCode::Conflict, message: message.to_owned(), errno: None }
}
