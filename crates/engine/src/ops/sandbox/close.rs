//! `sandbox_close`: destroys a sandbox. Closing one that has ended is fine.

use coracle_core::{Result, SandboxId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Caller, Engine};

#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Input {
    pub sandbox_id: SandboxId,
    /// Deletes the volume the workspace is on, too. A scratch workspace goes in any case, a host directory never.
    #[serde(default)]
    pub delete_workspace: bool,
}

#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Output {
    pub ok: bool,
}

pub fn call(engine: &Engine, caller: &Caller, input: Input) -> Result<Output> {
    engine.close(caller, &input.sandbox_id)?;
    Ok(Output { ok: true })
}
