//! `volume_list`: lists volumes, by name.

use coracle_core::Result;
use coracle_core::volume::Kept;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::catalogue::{Answer, Facts, Model, Scope, Set};
use crate::{Call, Engine};

pub const FACTS: Facts = Facts::reads("volume_list", "List volumes", "Lists the volumes that are here")
    .among(Set::Volumes)
    .answering(Answer::Measured)
    .within(Scope::Everybody)
    .for_models(Model::AllFields);

#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// The backend that has them; the preferred one if absent.
    #[serde(default)]
    pub backend: Option<String>,
}

#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Output {
    pub volumes: Vec<Kept>,
}

pub fn call(engine: &Engine, call: &Call, input: Input) -> Result<Output> {
    Ok(Output { volumes: engine.access().shelf(&call.caller, input.backend.as_deref())?.list()? })
}
