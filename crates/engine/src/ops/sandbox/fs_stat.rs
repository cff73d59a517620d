//! `sandbox_fs_stat`: tells what a path is. A symlink is not followed.

use coracle_core::spec::check_path;
use coracle_core::{Result, SandboxId};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::catalogue::{Facts, Model, Scope, Set};
pub use crate::files::FileEntry as Output;
use crate::{Call, Engine};

pub const FACTS: Facts =
    Facts::reads("sandbox_fs_stat", "Look at a path", "Tells what a path in a sandbox is")
        .among(Set::Files)
        .within(Scope::Everybody)
        .waking()
        .for_models(Model::AllFields);

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

pub fn call(engine: &Engine, call: &Call, input: Input) -> Result<Output> {
    check_path("path", &input.path)?;
    let mut inside = engine.entry().enter_to_look(call, &input.sandbox_id)?;
    inside.act_as(input.user.as_deref())?;
    Ok(inside.guest.stat(input.path.as_bytes())?.into())
}
