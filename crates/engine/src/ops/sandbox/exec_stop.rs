//! `sandbox_exec_stop`: ends an exec and everything it started.

use coracle_core::{ExecId, Result, SandboxId};
use schemars::JsonSchema;
use serde::Deserialize;

pub use super::exec_wait::Output;
use crate::catalogue::{Facts, Model, Repeat, Scope, Set};
use crate::exec::checked_grace;
use crate::exec::progress::Progress;
use crate::{Call, Engine};

pub const FACTS: Facts =
    Facts::destroys("sandbox_exec_stop", "Stop a command", "Ends a command and everything it started")
        .repeats(Repeat::Always)
        .among(Set::Processes)
        .within(Scope::Everybody)
        .waking()
        .for_models(Model::AllFields);

#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Input {
    pub sandbox_id: SandboxId,
    pub exec_id: ExecId,
    /// Between TERM and KILL; what it was started with if absent.
    #[serde(default)]
    pub grace_ms: Option<u64>,
}

pub fn call(engine: &Engine, call: &Call, input: Input) -> Result<Output> {
    let grace = checked_grace(input.grace_ms)?;
    let state = engine.execs().stop(call, &input.sandbox_id, &input.exec_id, grace)?;
    Ok(Progress::of(&state).into())
}
