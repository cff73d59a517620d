//! `sandbox_release`: gives a sandbox back to the run it came from, or leaves it without an owner.

use coracle_core::{Result, SandboxId};
use schemars::JsonSchema;
use serde::Deserialize;

pub use super::claim::Output;
use super::transfer::Running;
use crate::catalogue::{Facts, Model, Scope, Set};
use crate::{Call, Engine};

pub const FACTS: Facts =
    Facts::destroys("sandbox_release", "Give a sandbox back", "Gives a sandbox back to the run it came from")
        .among(Set::Ownership)
        .within(Scope::Everybody)
        .for_models(Model::AllFields);

#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Input {
    pub sandbox_id: SandboxId,
    /// What becomes of running execs; they stay if absent. Giving back must always be possible.
    #[serde(default)]
    pub running: Option<Running>,
}

pub fn call(engine: &Engine, call: &Call, input: Input) -> Result<Output> {
    let running = input.running.unwrap_or(Running::Keep);
    Ok(engine.access().release(&call.caller, &input.sandbox_id, running.into())?.into())
}
