//! `sandbox_fs_stat`: tells what a path is. A symlink is not followed.

use coracle_core::spec::check_path;
use coracle_core::{Result, SandboxId};
use schemars::JsonSchema;
use serde::Deserialize;

pub use crate::files::FileEntry as Output;
use crate::{Caller, Engine};

#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Input {
    pub sandbox_id: SandboxId,
    /// Relative to the workspace, or absolute.
    pub path: String,
}

pub fn call(engine: &Engine, caller: &Caller, input: Input) -> Result<Output> {
    check_path("path", &input.path)?;
    let mut inside = engine.enter_to_look(caller, &input.sandbox_id)?;
    Ok(inside.guest.stat(input.path.as_bytes())?.into())
}
