//! `image_list`: lists the images that are here, by name.

use coracle_core::Result;
use coracle_core::image::Stored;
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
    pub images: Vec<Stored>,
}

pub fn call(engine: &Engine, _caller: &Caller, input: Input) -> Result<Output> {
    Ok(Output { images: engine.images(input.backend.as_deref())?.list()? })
}
