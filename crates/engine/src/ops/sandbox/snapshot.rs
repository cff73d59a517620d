//! `sandbox_snapshot`: keeps the files of a sandbox as an image others can be opened from.

use coracle_core::{Result, SandboxId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::catalogue::{Facts, Model, Scope, Set};
use crate::{Call, Engine};

pub const FACTS: Facts = Facts::changes(
    "sandbox_snapshot",
    "Keep a sandbox's files as an image",
    "Keeps the files of a sandbox as an image",
)
.among(Set::Snapshots)
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
    /// What `image` takes to make a sandbox with these files.
    pub image: String,
    pub size_bytes: u64,
    pub sandbox_id: SandboxId,
}

pub fn call(engine: &Engine, call: &Call, input: Input) -> Result<Output> {
    let kept = engine.lifecycle().snapshot(call, &input.sandbox_id)?;
    Ok(Output { image: kept.reference, size_bytes: kept.size_bytes, sandbox_id: input.sandbox_id })
}
