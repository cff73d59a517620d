//! `sandbox_transfer`: lends a sandbox to another run.

use coracle_core::{Result, RunId, SandboxId};
use coracle_wire as wire;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use super::claim::Output;
use crate::catalogue::{Facts, Model, Scope, Set};
use crate::{Call, Engine};

pub const FACTS: Facts =
    Facts::destroys("sandbox_transfer", "Lend a sandbox to another run", "Lends a sandbox to another run")
        .among(Set::Ownership)
        .within(Scope::Everybody)
        .for_models(Model::AllFields);

#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Input {
    pub sandbox_id: SandboxId,
    /// The run that owns it from then on, until it gives it back.
    pub to: RunId,
    /// What becomes of running execs. Without it they are a conflict.
    #[serde(default)]
    pub running: Option<Running>,
}

/// What becomes of running execs when the owner changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Running {
    Keep,
    Kill,
}

impl From<Running> for wire::Running {
    fn from(running: Running) -> Self {
        match running {
            Running::Keep => Self::Keep,
            Running::Kill => Self::Kill,
        }
    }
}

pub fn call(engine: &Engine, call: &Call, input: Input) -> Result<Output> {
    let running = input.running.map(Into::into);
    Ok(engine.access().transfer(&call.caller, &input.sandbox_id, &input.to, running)?.into())
}
