//! `sandbox_fs_move`: gives a file or directory another name.

use coracle_core::spec::check_path;
use coracle_core::{Result, SandboxId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::catalogue::{Facts, Model, Scope, Set};
use crate::{Call, Engine};

pub const FACTS: Facts =
    Facts::destroys("sandbox_fs_move", "Move a file", "Gives a file or directory in a sandbox another name")
        .among(Set::Files)
        .within(Scope::Everybody)
        .waking()
        .for_models(Model::AllFields);

#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Input {
    pub sandbox_id: SandboxId,
    pub from: String,
    pub to: String,
    /// Replaces what is at `to`; by default that is a conflict, since what is replaced is gone.
    #[serde(default)]
    pub overwrite: bool,
    /// The user whose rights it has, by name or number; the one commands run as if absent. `root` may do everything.
    #[serde(default)]
    pub user: Option<String>,
}

#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Output {
    pub ok: bool,
    /// Where it is now.
    pub path: String,
}

pub fn call(engine: &Engine, call: &Call, input: Input) -> Result<Output> {
    check_path("from", &input.from)?;
    check_path("to", &input.to)?;
    let mut inside = engine.entry().enter(call, &input.sandbox_id)?;
    inside.act_as(input.user.as_deref())?;
    inside.guest.rename(
        input.from.as_bytes(),
        input.to.as_bytes(),
        input.overwrite,
        crate::files::Links::Follow,
    )?;
    Ok(Output { ok: true, path: input.to })
}
