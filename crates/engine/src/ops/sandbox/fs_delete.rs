//! `sandbox_fs_delete`: removes a file, or with `recursive` a directory.

use coracle_core::spec::check_path;
use coracle_core::{Result, SandboxId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::catalogue::{Facts, Model, Scope, Set};
use crate::{Call, Engine, files};

pub const FACTS: Facts =
    Facts::destroys("sandbox_fs_delete", "Delete files", "Removes a file or directory in a sandbox")
        .for_models(Model::Fields(&["sandbox_id", "path", "recursive"]))
        .among(Set::Code)
        .within(Scope::Everybody)
        .waking();

#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Input {
    pub sandbox_id: SandboxId,
    /// Relative to the workspace, or absolute. A symlink is removed, not followed.
    pub path: String,
    /// Required for directories.
    #[serde(default)]
    pub recursive: bool,
    /// The user whose rights it has, by name or number; the one commands run as if absent. `root` may do everything.
    #[serde(default)]
    pub user: Option<String>,
}

#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Output {
    pub ok: bool,
    /// The path that was removed.
    pub deleted: String,
}

pub fn call(engine: &Engine, call: &Call, input: Input) -> Result<Output> {
    check_path("path", &input.path)?;
    let mut inside = engine.entry().enter(call, &input.sandbox_id)?;
    inside.act_as(input.user.as_deref())?;
    files::delete(&mut inside, input.path.as_bytes(), input.recursive.into())?;
    Ok(Output { ok: true, deleted: input.path })
}
