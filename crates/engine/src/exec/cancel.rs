//! What becomes of a command whose call is cancelled.

use std::io;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use coracle_core::cancel::Registration;
use coracle_core::{Error, ExecId, Kind, Result, SandboxId};

use super::Execs;
use crate::Call;
use crate::access::gate::Inside;
use crate::guest::Guest;
use crate::ops::sandbox::exec_stop;

/// Between TERM and KILL. Clients give a server about two seconds before they kill it.
const GRACE: Duration = Duration::from_millis(500);
/// How long the caller waits for the command to be stopped before the call ends without it.
const PATIENCE: Duration = Duration::from_millis(900);
/// A guest may be busy, or held while its files are taken: it is asked again after this, and then after longer.
const APART: Duration = Duration::from_millis(20);
const APART_MAX: Duration = Duration::from_secs(1);
/// After this it runs to its deadline.
const TRIED_FOR: Duration = Duration::from_secs(60);

/// What ends when a call that runs a command is cancelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AtCancel {
    /// The command, with all it started.
    StopExec,
    /// The connection, which the caller has [cut](cut_at_cancel): the sandbox is about to go, and everything in it.
    CutOff,
}

/// A command to be stopped when its call is cancelled.
#[derive(Debug)]
pub(super) struct Stoppable {
    execs: Execs,
    /// Under which it is stopped: nothing cancels that.
    call: Call,
    sandbox: SandboxId,
    exec: ExecId,
    /// Another handle of the connection that waits for the command.
    waiting: UnixStream,
}

impl Stoppable {
    pub(super) fn new(execs: &Execs, call: &Call, inside: &Inside, exec: &ExecId) -> Result<Self> {
        let waiting = inside.guest.handle().map_err(unshared)?;
        let call = Call { parent: call.parent.clone(), ..Call::by(call.caller.clone()) };
        let (execs, sandbox, exec) = (execs.clone(), inside.record.id.clone(), exec.clone());
        Ok(Self { execs, call, sandbox, exec, waiting })
    }

    /// Stops the command from a thread of its own, over a connection of its own: the other one waits for the command,
    /// and the thread that cancels must not wait.
    pub(super) fn stop(self: Arc<Self>) {
        let stop = move || {
            let began = Instant::now();
            let mut apart = APART;
            while !self.is_stopped() && began.elapsed() < TRIED_FOR {
                if began.elapsed() > PATIENCE {
                    let _ = self.waiting.shutdown(Shutdown::Both);
                }
                std::thread::sleep(apart);
                apart = (apart * 2).min(APART_MAX);
            }
        };
        // Without a thread it runs to its deadline.
        let _ = std::thread::Builder::new().name("cancel".to_owned()).spawn(stop);
    }

    /// Has it stopped, and tells whether there is nothing left to stop.
    fn is_stopped(&self) -> bool {
        let stop = || self.execs.stop_although_paused(&self.call.caller, &self.sandbox, &self.exec, GRACE);
        match self.execs.access.performing(&self.call, &exec_stop::FACTS, stop) {
            Ok(_) => true,
            // Not started yet: then its starter stops it. Or the sandbox has another owner by now, who decides about it.
            Err(error) => {
                matches!(error.kind, Kind::NotFound | Kind::NotOwner | Kind::StaleEpoch | Kind::LentOut)
            }
        }
    }
}

/// Has whatever waits at a guest fail when the call is cancelled.
pub(crate) fn cut_at_cancel(call: &Call, guest: &Guest) -> Result<Registration> {
    let stream = guest.handle().map_err(unshared)?;
    Ok(call.cancel.on_cancel(move || {
        let _ = stream.shutdown(Shutdown::Both);
    }))
}

fn unshared(error: io::Error) -> Error {
    Error::internal("could not share the connection to a guest", error)
}
