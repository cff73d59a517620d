//! `sandbox_exec_wait`: waits for the end of an exec, or until the time is up.

use std::time::{Duration, Instant};

use coracle_core::network::Denial;
use coracle_core::{ExecId, Result, SandboxId};
use coracle_wire::ExecState;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::access::gate::Inside;
use crate::access::rejoin;
use crate::catalogue::{Facts, Model, Scope, Set};
use crate::exec::cancel::cut_at_cancel;
use crate::exec::checked_wait;
use crate::exec::progress::Progress;
use crate::guest::{Failure, WAIT_SLICE};
use crate::{Call, Engine};

/// Waits of up to this long get no proxy watch.
const SHORT: Duration = Duration::from_secs(1);

pub const FACTS: Facts =
    Facts::reads("sandbox_exec_wait", "Wait for a command", "Waits for a command to end")
        .for_models(Model::Fields(&["sandbox_id", "exec_id", "timeout_seconds"]))
        .among(Set::Code)
        .within(Scope::Everybody)
        .waking();

#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Input {
    pub sandbox_id: SandboxId,
    pub exec_id: ExecId,
    /// How long to wait; to the end if absent.
    #[serde(default)]
    pub timeout_seconds: Option<u64>,
    #[serde(default)]
    pub timeout_ms: Option<u64>,
}

#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Output {
    pub done: bool,
    #[serde(flatten)]
    pub progress: Progress,
    /// What of the network the sandbox was refused while it ran.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub egress_denied: Vec<Denial>,
}

impl From<Progress> for Output {
    fn from(progress: Progress) -> Self {
        Self { done: progress.is_done(), progress, egress_denied: Vec::new() }
    }
}

pub fn call(engine: &Engine, call: &Call, input: Input) -> Result<Output> {
    let caller = &call.caller;
    let timeout = checked_wait(input.timeout_seconds, input.timeout_ms, engine.policy())?;
    if let Some(kept) = engine.execs().kept_log(caller, &input.sandbox_id, &input.exec_id)? {
        return Ok(kept.progress.into());
    }
    let mut inside = engine.entry().enter_to_look(call, &input.sandbox_id)?;
    // A short wait is one of many, and each would start a thread.
    let long = timeout.is_none_or(|timeout| timeout > SHORT);
    let _proxy_watch = long.then(|| engine.egress().watch_keeper(&inside.record)).flatten();
    let (progress, state) = wait(engine, call, &mut inside, &input.exec_id, timeout)?;
    let egress_denied =
        state.map_or_else(Vec::new, |state| engine.egress().denied_during(&inside.record, &state));
    Ok(Output { egress_denied, ..progress.into() })
}

/// Returns how far it is, and the guest's own words, if there were any.
fn wait(
    engine: &Engine,
    call: &Call,
    inside: &mut Inside,
    exec: &ExecId,
    timeout: Option<Duration>,
) -> Result<(Progress, Option<ExecState>)> {
    // A span, not a date: the clock of the records may be set back meanwhile.
    let began = Instant::now();
    let mut last = None;
    let mut breaks = 0;
    let mut _cut = cut_at_cancel(call, &inside.guest)?;
    loop {
        let left = timeout.map_or(WAIT_SLICE, |timeout| timeout.saturating_sub(began.elapsed()));
        match inside.guest.wait(exec.as_str(), left) {
            Ok(state) if state.ending.is_some() || left.is_zero() => {
                engine.execs().tell_ended(&inside.record, exec, &state);
                return Ok((Progress::of(&state), Some(state)));
            }
            Ok(state) => last = Some(state),
            Err(Failure::Gone) => {
                call.cancel.check()?;
                breaks += 1;
                if breaks > rejoin::TIMES_MAX || !engine.access().rejoin_inside(call, inside) {
                    return Ok((last.as_ref().map_or_else(Progress::lost, Progress::final_of), last));
                }
                _cut = cut_at_cancel(call, &inside.guest)?;
            }
            Err(failure) => {
                let progress = engine.execs().of_killed_life(&inside.record, exec, failure)?;
                return Ok((progress, None));
            }
        }
    }
}
