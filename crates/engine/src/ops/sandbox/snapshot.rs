//! `sandbox_snapshot`: keeps the files of a sandbox as an image others can be opened from.

use coracle_core::{Result, SandboxId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Caller, Engine};

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

pub fn call(engine: &Engine, caller: &Caller, input: Input) -> Result<Output> {
    let kept = engine.snapshot(caller, &input.sandbox_id)?;
    Ok(Output { image: kept.reference, size_bytes: kept.size_bytes, sandbox_id: input.sandbox_id })
}
