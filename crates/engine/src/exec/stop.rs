//! Ending an exec before it ends by itself.

use std::time::Duration;

use coracle_core::{ExecId, Result, SandboxId};
use coracle_wire::ExecState;

use super::Execs;
use crate::Caller;

impl Execs {
    /// Ends an exec and everything it started.
    pub(crate) fn stop(
        &self,
        caller: &Caller,
        sandbox: &SandboxId,
        exec: &ExecId,
        grace: Option<Duration>,
    ) -> Result<ExecState> {
        let mut inside = self.access.enter(caller, sandbox)?;
        let state = inside.guest.stop(exec.as_str(), grace)?;
        self.tell_ended(&inside.record, exec, &state);
        Ok(state)
    }
}
