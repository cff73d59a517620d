//! A sandbox held as it is while its files are taken, and kept so for as long as that takes.
//!
//! The guest lets go by itself when a hold is not renewed: the caller may have been stopped, and its sandbox must not
//! stand still with it. What was taken counts only if the hold can still be renewed afterwards.

use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use coracle_core::forking::{Grip, Lent, Renewal};
use coracle_core::{Error, Kind, Result, SandboxId};
use coracle_wire::FaultCode;

use crate::guest::{Failure, Guest, Holding};

/// How long a sandbox is held by a process that was stopped. Shorter than the guest has others wait, and long enough for a
/// renewal on an overloaded machine.
pub(crate) const LEASE: Duration = Duration::from_secs(10);
/// How often a hold is renewed: a machine may be busy for a moment.
const RENEWAL: Duration = Duration::from_secs(1);

/// What holds one sandbox. Dropping it lets go.
#[derive(Debug)]
pub(crate) struct Hold<'a> {
    sandbox: &'a SandboxId,
    guest: Mutex<Guest>,
    /// The same connection, for the code it is lent to.
    stream: UnixStream,
    holding: Holding,
}

impl<'a> Hold<'a> {
    pub(crate) fn of(sandbox: &'a SandboxId, mut guest: Guest) -> Result<Self> {
        let holding = guest.hold(LEASE)?;
        let stream = guest.handle().map_err(Failure::Stream)?;
        Ok(Self { sandbox, guest: Mutex::new(guest), stream, holding })
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.holding.idle
    }

    /// Does something while the hold is renewed.
    pub(crate) fn keep_while<T>(&self, deed: impl FnOnce() -> T) -> T {
        if !self.holding.leased {
            return deed();
        }
        let (done, is_done) = channel::<()>();
        std::thread::scope(|scope| {
            let renew = move || {
                while is_done.recv_timeout(RENEWAL) == Err(RecvTimeoutError::Timeout) {
                    if self.confirm().is_err() {
                        return;
                    }
                }
            };
            // Without the thread the hold lasts for its lease, and what takes longer finds out.
            let _ = std::thread::Builder::new().spawn_scoped(scope, renew);
            let value = deed();
            drop(done);
            value
        })
    }

    pub(crate) fn let_go(self) {
        // Where this fails the end of the connection does the same.
        let _ = self.guest().let_go();
    }

    fn guest(&self) -> MutexGuard<'_, Guest> {
        self.guest.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Grip for Hold<'_> {
    fn confirm(&self) -> Result<()> {
        if !self.holding.leased {
            return Ok(());
        }
        let mut guest = self.guest();
        if !guest.is_usable() {
            return Err(Failure::Silent.into());
        }
        guest.renew_hold(LEASE).map_err(|failure| match failure {
            Failure::Fault(fault) if fault.code == FaultCode::Conflict => went_on(self.sandbox),
            failure => failure.into(),
        })
    }

    fn lend(&self, deed: &mut dyn FnMut(&Lent<'_>)) {
        let guest = self.guest();
        let renewal = self.holding.leased.then(|| Renewal { epoch: guest.epoch(), lease: LEASE });
        deed(&Lent { stream: self.stream.as_fd(), renewal });
    }
}

fn went_on(sandbox: &SandboxId) -> Error {
    Error::new(
        Kind::Conflict,
        format!("could not take the files of sandbox `{sandbox}`: it went on before all of them were taken"),
    )
    .hint("try again; coracle was stopped in between, or the machine is overloaded")
    .detail("sandbox_id", sandbox.as_str())
}
