//! `volume_list`: lists volumes, by name.

use coracle_core::Result;
use coracle_core::volume::Kept;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Caller, Engine};

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

pub fn call(engine: &Engine, caller: &Caller, input: Input) -> Result<Output> {
    Ok(Output { volumes: engine.shelf(caller, input.backend.as_deref())?.list()? })
}
