//! Ending an exec before it ends by itself.

use std::time::Duration;

use coracle_core::{ExecId, Result, SandboxId};
use coracle_wire::ExecState;

use super::Execs;
use crate::access::gate::Inside;
use crate::{Call, Caller};

impl Execs {
    /// Ends an exec and everything it started.
    pub(crate) fn stop(
        &self,
        call: &Call,
        sandbox: &SandboxId,
        exec: &ExecId,
        grace: Option<Duration>,
    ) -> Result<ExecState> {
        self.stop_in(self.entry.enter(call, sandbox)?, exec, grace)
    }

    /// Does the same in a sandbox that may be paused. There the exec has no grace. Wakes nothing: what sleeps runs nothing.
    pub(super) fn stop_although_paused(
        &self,
        caller: &Caller,
        sandbox: &SandboxId,
        exec: &ExecId,
        grace: Duration,
    ) -> Result<ExecState> {
        self.stop_in(self.access.enter_to_look(caller, sandbox)?, exec, Some(grace))
    }

    fn stop_in(&self, mut inside: Inside, exec: &ExecId, grace: Option<Duration>) -> Result<ExecState> {
        let state = inside.guest.stop(exec.as_str(), grace)?;
        self.tell_ended(&inside.record, exec, &state);
        Ok(state)
    }
}
