//! Standard input, signals and terminal size of a running exec, for doors with a person behind them.
//!
//! A connection of its own: what it sends must not wait behind a long read.

use std::time::Duration;

use coracle_core::cancel::Registration;
use coracle_core::{ExecId, Result, SandboxId};
use coracle_wire::Terminal;

use super::Execs;
use crate::Call;
use crate::access::gate::Inside;
use crate::exec::cancel::cut_at_cancel;
use crate::exec::progress::Progress;
use crate::guest::FOR_EVER;

/// Steers one exec. Dropping it leaves the exec alone.
#[derive(Debug)]
pub struct Control {
    execs: Execs,
    inside: Inside,
    exec: ExecId,
    patience: Duration,
    /// Ends whatever waits there, for a command that does not read, when the call is cancelled.
    _cut: Registration,
}

impl Execs {
    /// Takes the controls of an exec.
    pub fn control(&self, call: impl Into<Call>, sandbox: &SandboxId, exec: &ExecId) -> Result<Control> {
        let call = call.into();
        let inside = self.entry.enter(&call, sandbox)?;
        Ok(Control {
            _cut: cut_at_cancel(&call, &inside.guest)?,
            execs: self.clone(),
            inside,
            exec: exec.clone(),
            patience: self.policy.exec_timeout_max.unwrap_or(FOR_EVER),
        })
    }
}

impl Control {
    /// Writes to standard input, waiting while the command does not read.
    ///
    /// At most 1 MiB at once; more belongs in several calls.
    pub fn write(&mut self, data: &[u8]) -> Result<()> {
        Ok(self.inside.guest.input(self.exec.as_str(), data, false, self.patience)?)
    }

    /// Closes standard input.
    pub fn close_input(&mut self) -> Result<()> {
        Ok(self.inside.guest.input(self.exec.as_str(), &[], true, self.patience)?)
    }

    /// Sends a signal to the command's process group.
    pub fn signal(&mut self, signal: i32) -> Result<()> {
        Ok(self.inside.guest.signal(self.exec.as_str(), signal)?)
    }

    /// Tells the command's terminal its size.
    pub fn resize(&mut self, rows: u16, columns: u16) -> Result<()> {
        Ok(self.inside.guest.resize(self.exec.as_str(), Terminal { rows, columns })?)
    }

    /// Ends the whole tree.
    pub fn stop(&mut self, grace: Option<Duration>) -> Result<Progress> {
        let state = self.inside.guest.stop(self.exec.as_str(), grace)?;
        self.execs.tell_ended(&self.inside.record, &self.exec, &state);
        Ok(Progress::of(&state))
    }
}
