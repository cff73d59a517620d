//! The part of a call in a command: it has started it, or joined one that another call has started under the same id.
//! Only the first is entitled to stop it.

use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use coracle_core::answer::EXEC_OF_KEY;
use coracle_core::{Cancel, Error, ExecId, Result};

use super::cancel::Stoppable;
use super::{ExecRequest, Execs};
use crate::Call;
use crate::access::gate::Inside;

/// How long a cancelled call waits to learn whether it has started the command.
const ANSWER_PATIENCE: Duration = Duration::from_millis(900);

/// What a cancelled call ends: the command it has started, or its wait for one that another call has started.
pub(super) struct Part {
    stoppable: Arc<Stoppable>,
    /// Another handle of the connection that waits for the command.
    waiting: UnixStream,
    /// It may be another call's: its id was chosen by the caller.
    may_exist: bool,
    /// It was there already. Known once the guest has answered.
    existing: OnceLock<bool>,
    known: Cancel,
}

impl Part {
    pub(super) fn new(
        execs: &Execs,
        call: &Call,
        inside: &Inside,
        request: &ExecRequest,
        exec: &ExecId,
    ) -> Result<Self> {
        let waiting = inside.guest.handle();
        let waiting =
            waiting.map_err(|error| Error::internal("could not share the connection to a guest", error))?;
        // Sent again under its key it is the same request, and its exec is its own.
        let own = call.key.is_some() && exec.as_str().starts_with(EXEC_OF_KEY);
        Ok(Self {
            stoppable: Arc::new(Stoppable::new(execs, call, inside, exec)?),
            waiting,
            may_exist: request.exec_id.is_some() && !own,
            existing: OnceLock::new(),
            known: Cancel::default(),
        })
    }

    /// Notes what the guest has answered.
    pub(super) fn know(&self, existing: bool) {
        let _ = self.existing.set(existing);
        self.known.cancel();
    }

    /// Ends what is to end, or leaves that to the guest's answer. Without one soon, only the wait ends.
    pub(super) fn cancel(self: Arc<Self>) {
        if !self.may_exist || self.existing.get().is_some() {
            return self.end();
        }
        let give_up = move || {
            if !self.known.sleep(ANSWER_PATIENCE) {
                self.cut();
            }
        };
        // Without a thread the guest's answer ends the call.
        let _ = std::thread::Builder::new().name("cancel".to_owned()).spawn(give_up);
    }

    pub(super) fn end(&self) {
        match self.may_exist && self.existing.get() == Some(&true) {
            true => self.cut(),
            false => self.stoppable.clone().stop(),
        }
    }

    fn cut(&self) {
        let _ = self.waiting.shutdown(Shutdown::Both);
    }
}
