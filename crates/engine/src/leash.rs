//! Commands, and sandboxes, that end with the process that wants them, however that dies: the guest ends what is tied to
//! a connection when the kernel has closed that.

use std::io::Read;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use coracle_core::{Epoch, Error, ExecId, Record, Result, SandboxId};

use crate::gate::Inside;
use crate::guest::{Failure, Guest};
use crate::tether::{Cutter, Tether};
use crate::{Caller, Engine, rejoin};

/// What is left to a client whose connection broke though it lives, to tie again: longer than it looks for the guest.
const GRACE: Duration = Duration::from_secs(rejoin::PATIENCE.as_secs() + 5);

/// What ends with this value, or with this process.
#[derive(Debug)]
pub struct Leash {
    _cutter: Cutter,
    /// Where nothing can break the connection, nobody has to watch it.
    _stream: Option<UnixStream>,
}

impl Engine {
    /// Has an exec that is about to be started end with the result of this. One that was started before is left alone,
    /// unless it is on a leash already.
    ///
    /// `unsupported` where the sandbox was made by an older coracle.
    pub fn leash_exec(&self, caller: &Caller, sandbox: &SandboxId, exec: &ExecId) -> Result<Leash> {
        self.leash(caller, sandbox, Some(exec))
    }

    /// Has a sandbox, and everything in it, end with the result of this.
    pub fn leash_sandbox(&self, caller: &Caller, sandbox: &SandboxId) -> Result<Leash> {
        self.leash(caller, sandbox, None)
    }

    fn leash(&self, caller: &Caller, sandbox: &SandboxId, exec: Option<&ExecId>) -> Result<Leash> {
        let Inside { record, guest } = self.enter_untold(caller, sandbox)?;
        let breaks = record.placement.as_ref().is_some_and(|placement| {
            self.backend_of(&record).is_ok_and(|backend| backend.may_break(placement))
        });
        let grace = if breaks { GRACE } else { Duration::ZERO };
        let (tether, epoch) = (Tether::to(&guest).map_err(unshared)?, guest.epoch());
        let stream = guest.tie(exec.map(ExecId::as_str), grace)?;
        let cutter = tether.cutter();
        if !breaks {
            return Ok(Leash { _cutter: cutter, _stream: Some(stream) });
        }
        let watch = Watch { engine: self.clone(), record, epoch, exec: exec.cloned(), tether };
        std::thread::Builder::new().spawn(move || watch.over(stream)).map_err(unshared)?;
        Ok(Leash { _cutter: cutter, _stream: None })
    }
}

/// Ties again when the connection breaks.
struct Watch {
    engine: Engine,
    record: Record,
    epoch: Epoch,
    exec: Option<ExecId>,
    tether: Tether,
}

impl Watch {
    fn over(self, mut stream: UnixStream) {
        for _ in 0..rejoin::TIMES_MAX {
            // The guest says nothing more: what ends this is the end of the connection.
            let _ = stream.read(&mut [0]);
            if self.tether.is_cut() {
                return;
            }
            let Some(guest) = self.engine.rejoin(&self.record, self.epoch) else { return };
            match self.tie_to(guest) {
                Ok(tied) => stream = tied,
                Err(_) => return,
            }
        }
    }

    fn tie_to(&self, guest: Guest) -> Result<UnixStream, Failure> {
        self.tether.move_to(&guest).map_err(Failure::Stream)?;
        guest.tie(self.exec.as_ref().map(ExecId::as_str), GRACE)
    }
}

fn unshared(error: std::io::Error) -> Error {
    Error::internal("could not keep the way to a sandbox", error)
}
