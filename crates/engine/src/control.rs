//! Standard input, signals and terminal size of a running exec, for doors with a person behind them.
//!
//! A connection of its own: what it sends must not wait behind a long read.

use std::time::Duration;

use coracle_core::{Error, ExecId, Result, SandboxId};
use coracle_wire::Terminal;

use crate::gate::Inside;
use crate::guest::FOR_EVER;
use crate::progress::Progress;
use crate::tether::{Cutter, Tether};
use crate::{Caller, Engine};

/// Steers one exec. Dropping it leaves the exec alone.
#[derive(Debug)]
pub struct Control {
    engine: Engine,
    inside: Inside,
    exec: ExecId,
    patience: Duration,
}

impl Engine {
    /// Takes the controls of an exec.
    pub fn control(&self, caller: &Caller, sandbox: &SandboxId, exec: &ExecId) -> Result<Control> {
        let inside = self.enter(caller, sandbox)?;
        Ok(Control {
            engine: self.clone(),
            inside,
            exec: exec.clone(),
            patience: self.policy().exec_timeout_max.unwrap_or(FOR_EVER),
        })
    }
}

impl Control {
    /// Returns what ends it from another thread: whatever waits there, for a command that does not read, fails.
    pub fn cutter(&self) -> Result<Cutter> {
        let tether = Tether::to(&self.inside.guest);
        tether
            .map(|tether| tether.cutter())
            .map_err(|error| Error::internal("could not share the way to a command", error))
    }

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
        self.engine.tell_ended(&self.inside.record, &self.exec, &state);
        Ok(Progress::of(&state))
    }
}
