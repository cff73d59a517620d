//! `sandbox_release`: gives a sandbox back to the run it came from, or to nobody.

use coracle_core::{Result, SandboxId};
use schemars::JsonSchema;
use serde::Deserialize;

pub use super::claim::Output;
use super::transfer::Running;
use crate::{Caller, Engine};

#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Input {
    pub sandbox_id: SandboxId,
    /// What becomes of running execs; they stay if absent. Giving back must always be possible.
    #[serde(default)]
    pub running: Option<Running>,
}

pub fn call(engine: &Engine, caller: &Caller, input: Input) -> Result<Output> {
    let running = input.running.unwrap_or(Running::Keep);
    Ok(engine.release(caller, &input.sandbox_id, running.into())?.into())
}
