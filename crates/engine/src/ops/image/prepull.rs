//! `image_prepull`: brings the images the settings name, so that nobody waits for them later.

use coracle_core::image::{Images, Stored};
use coracle_core::{Kind, Result};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::reference;
use crate::{Caller, Engine};

#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// The backend that shall have them; the preferred one if absent.
    #[serde(default)]
    pub backend: Option<String>,
}

#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Output {
    pub images: Vec<Stored>,
    /// What did not come, and why. One that is missing keeps none of the others away.
    pub failed: Vec<Failed>,
}

/// An image that did not come.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Failed {
    pub image: String,
    /// As in the `kind` of an error.
    #[schemars(with = "String")]
    pub kind: Kind,
    pub message: String,
    pub hint: Option<String>,
}

pub fn call(engine: &Engine, caller: &Caller, input: Input) -> Result<Output> {
    engine.check_own(caller, "bringing images for everybody")?;
    let wanted = &engine.policy().prepull;
    let mut output = Output { images: Vec::new(), failed: Vec::new() };
    if wanted.is_empty() {
        return Ok(output);
    }
    let backend = engine.choose_backend(input.backend.as_deref())?;
    let images = engine.images_of(backend)?;
    for image in wanted {
        match bring(engine, images, image) {
            Ok(stored) => {
                engine.adopt_own(backend.name(), std::slice::from_ref(&stored));
                output.images.push(stored);
            }
            Err(error) => output.failed.push(Failed {
                image: image.clone(),
                kind: error.kind,
                message: error.chain(),
                hint: error.hint,
            }),
        }
    }
    Ok(output)
}

fn bring(engine: &Engine, images: &dyn Images, image: &str) -> Result<Stored> {
    let reference = reference("images.prepull", image)?;
    engine.policy().images.check_reference(&reference)?;
    engine.expect_headroom("pull an image")?;
    images.pull(&reference, engine.progress())
}
