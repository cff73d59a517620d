//! One call of a tool: runs the operation on a thread of its own, sends progress while it takes long, and ends it
//! when the client no longer wants it.

use std::sync::{Arc, OnceLock};
use std::time::Instant;

use coracle_core::{Cancel, Error, ExecId, Result, SandboxId};
use coracle_engine::call::{Observer, Running};
use coracle_engine::ops::sandbox::exec_wait;
use coracle_engine::{Caller, Engine};
use serde_json::Value;

use super::calls::Interest;
use super::opened_sandboxes::Opened;
use super::progress::Beats;
use coracle_service::telemetry;

/// The operation to call, and its caller.
#[derive(Debug, Clone)]
pub struct Call {
    pub engine: Engine,
    pub caller: Caller,
    pub operation: &'static str,
    pub input: Value,
    pub cancel: Cancel,
    pub deadline: Option<Instant>,
    pub interest: Interest,
    /// Learns which sandboxes were opened, even if the client no longer waits for the answer.
    pub opened: Opened,
}

impl Call {
    /// Carries the call out. If the client no longer wants the answer, what it started is stopped before this
    /// returns.
    pub async fn carry_out(self, beats: Option<Beats>) -> Result<Value> {
        let Self { engine, caller, operation, input, cancel, deadline, interest, opened } = self;
        let facts = engine.catalogue().expect(operation)?.facts;
        let command = Arc::new(Command::of(&engine, &caller));
        let call = coracle_engine::Call::by(caller).cancelled_by(cancel.clone()).until(deadline);
        let call = call.watched_by(command.clone());
        let mut work = tokio::task::spawn_blocking(telemetry::carried(move || {
            engine.call(call, operation, input).inspect(|output| opened.learn(facts, output))
        }));
        let ended = tokio::select! {
            ended = &mut work => ended,
            () = interest.lost() => {
                cancel.cancel();
                // The answer is dropped. Waited for all the same, because by then what the call started is stopped.
                let _ = work.await;
                return Err(cancel.reason());
            }
            () = Beats::send(beats, command) => unreachable!("it never ends"),
        };
        ended.map_err(|error| Error::internal(format!("`{operation}` did not finish"), error))?
    }
}

/// The command that a call runs, once it runs.
#[derive(Debug)]
pub struct Command {
    engine: Engine,
    caller: Caller,
    running: OnceLock<(SandboxId, ExecId)>,
}

impl Command {
    fn of(engine: &Engine, caller: &Caller) -> Self {
        // The command may be in a sandbox that was made for this call.
        Self { engine: engine.clone(), caller: caller.of_its_own(), running: OnceLock::new() }
    }

    /// Returns how many bytes of output there are so far, if known. Not an operation of the client, and untraced: a
    /// check every second would be most of the traces and metrics.
    pub fn output_so_far(&self) -> Option<u64> {
        let (sandbox_id, exec_id) = self.running.get()?.clone();
        let input = exec_wait::Input { sandbox_id, exec_id, timeout_seconds: None, timeout_ms: Some(1) };
        let waited = telemetry::untold(|| self.engine.perform(&self.caller, input)).ok()?;
        Some(waited.progress.stdout_bytes.saturating_add(waited.progress.stderr_bytes))
    }
}

impl Observer for Command {
    fn started(&self, exec: &Running<'_>) -> Result<()> {
        // A call runs one command.
        let _ = self.running.set((exec.sandbox.clone(), exec.exec.clone()));
        Ok(())
    }
}
