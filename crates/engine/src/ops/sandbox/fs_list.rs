//! `sandbox_fs_list`: lists a directory.

use coracle_core::spec::check_path;
use coracle_core::{Result, SandboxId};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::catalogue::{Facts, Model, Scope, Set};
pub use crate::files::Entries as Output;
use crate::{Call, Engine, files};

pub const FACTS: Facts = Facts::reads("sandbox_fs_list", "List files", "Lists a directory in a sandbox")
    .for_models(Model::Fields(&["sandbox_id", "path", "recursive"]))
    .among(Set::Code)
    .within(Scope::Everybody)
    .waking();

#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Input {
    pub sandbox_id: SandboxId,
    /// Relative to the workspace, or absolute; the workspace itself if absent.
    #[serde(default = "workspace")]
    pub path: String,
    #[serde(default)]
    pub recursive: bool,
    /// The user whose rights it has, by name or number; the one commands run as if absent. `root` may do everything.
    #[serde(default)]
    pub user: Option<String>,
}

pub fn call(engine: &Engine, call: &Call, input: Input) -> Result<Output> {
    check_path("path", &input.path)?;
    let mut inside = engine.entry().enter_to_look(call, &input.sandbox_id)?;
    inside.act_as(input.user.as_deref())?;
    files::list(&mut inside, input.path.as_bytes(), input.recursive.into(), &engine.inline)
}

fn workspace() -> String {
    ".".to_owned()
}
