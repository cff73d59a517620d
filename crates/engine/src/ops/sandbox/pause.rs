//! `sandbox_pause`: has everything in a sandbox stand still. Its time does not count until it is resumed.

use coracle_core::{Result, SandboxId, State};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::catalogue::{Facts, Model, Repeat, Scope, Set};
use crate::{Call, Engine};

pub const FACTS: Facts = Facts::changes(
    "sandbox_pause",
    "Pause a sandbox",
    "Has everything in a sandbox stand still; its time does not count",
)
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
    /// `paused`.
    pub state: State,
}

pub fn call(engine: &Engine, call: &Call, input: Input) -> Result<Output> {
    let record = engine.lifecycle().pause(call, &input.sandbox_id)?;
    Ok(Output { sandbox_id: record.id, state: record.state })
}
