//! `sandbox_resume`: has everything in a paused sandbox go on.

use coracle_core::{Result, SandboxId, State};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::catalogue::{Facts, Model, Repeat, Scope, Set};
use crate::{Call, Engine};

pub const FACTS: Facts =
    Facts::changes("sandbox_resume", "Resume a sandbox", "Has everything in a paused sandbox go on")
        .repeats(Repeat::Always)
        .among(Set::Processes)
        .within(Scope::Everybody)
        .waking()
        .for_models(Model::AllFields);

#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Input {
    pub sandbox_id: SandboxId,
}

#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Output {
    pub sandbox_id: SandboxId,
    /// `ready`.
    pub state: State,
}

pub fn call(engine: &Engine, call: &Call, input: Input) -> Result<Output> {
    let record = engine.lifecycle().resume(call, &input.sandbox_id)?;
    Ok(Output { sandbox_id: record.id, state: record.state })
}
