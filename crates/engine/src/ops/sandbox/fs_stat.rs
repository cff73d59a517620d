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
    /// The user whose rights it has, by name or number; the one commands run as if absent. `root` may do everything.
    #[serde(default)]
    pub user: Option<String>,
}

pub fn call(engine: &Engine, caller: &Caller, input: Input) -> Result<Output> {
    check_path("path", &input.path)?;
    let mut inside = engine.enter_to_look(caller, &input.sandbox_id)?;
    inside.act_as(input.user.as_deref())?;
    Ok(inside.guest.stat(input.path.as_bytes())?.into())
}
