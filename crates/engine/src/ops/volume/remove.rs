//! `volume_remove`: removes a volume with all that is in it. Refused while a sandbox uses it.

use coracle_core::{Result, VolumeName};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::catalogue::{Facts, Model, Scope, Set};
use crate::{Call, Engine};

pub const FACTS: Facts =
    Facts::destroys("volume_remove", "Remove a volume", "Removes a volume with all that is in it")
        .among(Set::Volumes)
        .for_models(Model::Hidden)
        .within(Scope::Everybody);

#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Input {
    pub name: VolumeName,
    /// The backend that has it; the preferred one if absent.
    #[serde(default)]
    pub backend: Option<String>,
}

#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Output {
    pub ok: bool,
}

pub fn call(engine: &Engine, call: &Call, input: Input) -> Result<Output> {
    engine.access().shelf(&call.caller, input.backend.as_deref())?.remove(&input.name)?;
    Ok(Output { ok: true })
}
