//! `image_prepull`: brings the images the settings name, so that no call waits for them later.

use coracle_core::image::{Images, Stored};
use coracle_core::{Kind, Result};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::reference;
use crate::catalogue::{Facts, Reach, Repeat, Scope, Set};
use crate::{Call, Engine};

pub const FACTS: Facts = Facts::changes(
    "image_prepull",
    "Bring the images of the settings",
    "Brings the images the settings name, before anybody needs them",
)
.repeats(Repeat::Always)
.reaching(Reach::World)
.among(Set::Images)
.within(Scope::Home("bringing images for everybody"));

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

pub fn call(engine: &Engine, call: &Call, input: Input) -> Result<Output> {
    let wanted = &engine.policy().prepull;
    let mut output = Output { images: Vec::new(), failed: Vec::new() };
    if wanted.is_empty() {
        return Ok(output);
    }
    let backend = engine.placement().choose_backend(input.backend.as_deref())?;
    let images = engine.placement().images_of(backend)?;
    for image in wanted {
        call.cancel.check()?;
        match bring(engine, call, images, image) {
            Ok(stored) => {
                engine.holdings().adopt_own(backend.name(), std::slice::from_ref(&stored));
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

fn bring(engine: &Engine, call: &Call, images: &dyn Images, image: &str) -> Result<Stored> {
    let reference = reference("images.prepull", image)?;
    engine.policy().images.check_reference(&reference)?;
    engine.headroom().expect("pull an image")?;
    images.pull(&reference, call)
}
