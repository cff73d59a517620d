//! Ending what a call started, when nobody wants its answer any more.

use std::sync::OnceLock;
use std::time::Duration;

use coracle_core::{Kind, Result, SandboxId};
use coracle_engine::ops::sandbox::{exec_wait, get};
use coracle_engine::progress::Progress;
use coracle_engine::{Caller, Engine, ops};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::call::Call;
use coracle_service::telemetry;

/// Between TERM and KILL. Clients give a server about two seconds before they kill it.
const GRACE: Duration = Duration::from_millis(500);
/// A command may be asked for and not have started yet, or stand still, or its guest be busy: it is tried again after
/// this, and then after longer.
const APART: Duration = Duration::from_millis(20);
const APART_MAX: Duration = Duration::from_secs(1);

/// What a call can be found by from outside.
#[derive(Debug)]
pub struct Target {
    engine: Engine,
    caller: Caller,
    what: What,
}

#[derive(Debug)]
enum What {
    /// A command: it is stopped with all it started.
    Exec { sandbox: Value, exec: Value },
    /// A sandbox of its own, once there is one: it is closed.
    Sandbox(OnceLock<SandboxId>),
    /// Nothing that would go on by itself.
    Nothing,
}

impl Target {
    pub fn of(call: &Call) -> Self {
        let what = match call.operation {
            "sandbox_exec" => {
                What::Exec { sandbox: call.input["sandbox_id"].clone(), exec: call.input["exec_id"].clone() }
            }
            "sandbox_run" => What::Sandbox(OnceLock::new()),
            _ => What::Nothing,
        };
        Self { engine: call.engine.clone(), caller: call.caller.clone(), what }
    }

    /// Learns in which sandbox the call works.
    pub fn place(&self, sandbox: &SandboxId) {
        if let What::Sandbox(place) = &self.what {
            // Only one is ever made for a call.
            let _ = place.set(sandbox.clone());
        }
    }

    /// Returns how many bytes of output there are so far, where that can be told. No operation of the client's: one that
    /// is looked after every second would be most of what is told and counted.
    pub fn output_so_far(&self) -> Option<u64> {
        telemetry::untold(|| match &self.what {
            What::Exec { sandbox, exec } => {
                let input = json!({"sandbox_id": sandbox, "exec_id": exec, "timeout_ms": 1});
                let input = ops::read("sandbox_exec_wait", input).ok()?;
                let waited = exec_wait::call(&self.engine, &self.caller, input).ok()?;
                Some(bytes(&waited.progress))
            }
            What::Sandbox(place) => {
                let input = get::Input { sandbox_id: place.get()?.clone() };
                let shown = get::call(&self.engine, &self.caller, input).ok()?;
                Some(shown.execs?.iter().map(|exec| bytes(&exec.progress)).sum())
            }
            What::Nothing => None,
        })
    }

    /// Stops it, and waits for the end of the work, which comes by that.
    pub async fn stop_until_ended(self: &std::sync::Arc<Self>, work: &mut JoinHandle<Result<Value>>) {
        let mut apart = APART;
        loop {
            let target = std::sync::Arc::clone(self);
            let stop = telemetry::carried(move || target.stop());
            let stopped = tokio::task::spawn_blocking(stop).await.unwrap_or(true);
            match stopped {
                true => return drop(work.await),
                false => match tokio::time::timeout(apart, &mut *work).await {
                    Ok(_) => return,
                    Err(_) => apart = (apart * 2).min(APART_MAX),
                },
            }
        }
    }

    /// Tells whether there is nothing left to stop.
    fn stop(&self) -> bool {
        match &self.what {
            What::Exec { sandbox, exec } => {
                let grace = u64::try_from(GRACE.as_millis()).unwrap_or_default();
                let input = json!({"sandbox_id": sandbox, "exec_id": exec, "grace_ms": grace});
                match self.call("sandbox_exec_stop", input) {
                    Ok(_) => true,
                    // Somebody else's by now, who decides about it.
                    Err(error) => matches!(error.kind, Kind::NotOwner | Kind::StaleEpoch | Kind::LentOut),
                }
            }
            What::Sandbox(place) => match place.get() {
                // What cannot be closed is the janitor's.
                Some(sandbox) => {
                    let owner = self.caller.of_its_own();
                    let _ = self.engine.call(&owner, "sandbox_close", json!({"sandbox_id": sandbox}));
                    true
                }
                None => false,
            },
            What::Nothing => true,
        }
    }

    fn call(&self, operation: &str, input: Value) -> Result<Value> {
        self.engine.call(&self.caller, operation, input)
    }
}

fn bytes(progress: &Progress) -> u64 {
    progress.stdout_bytes.saturating_add(progress.stderr_bytes)
}
