//! `image_build`: builds an image from a Dockerfile, where the chosen backend can or by one that can.

use coracle_core::image::build::RecipeInput;
use coracle_core::image::{Recipe, Stored};
use coracle_core::{Error, Kind, Result};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::catalogue::{Facts, Reach, Scope, Set};
use crate::{Call, Engine};

pub const FACTS: Facts = Facts::changes("image_build", "Build an image", "Builds an image from a Dockerfile")
    .reaching(Reach::World)
    .among(Set::Images)
    .within(Scope::Home("building images"));

// About `flatten` with `deny_unknown_fields`, see `sandbox_open`.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Input {
    #[serde(flatten)]
    pub recipe: RecipeInput,
    /// The backend that shall have the image; the preferred one if absent.
    #[serde(default)]
    pub backend: Option<String>,
}

#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Output {
    #[serde(flatten)]
    pub image: Stored,
    /// The backend whose builder did it, which keeps the image, too.
    pub built_by: String,
}

pub fn call(engine: &Engine, call: &Call, input: Input) -> Result<Output> {
    let recipe = Recipe::resolve(input.recipe, &engine.policy().limits)?;
    engine.policy().images.check_built(&recipe.tag)?;
    engine.headroom().expect("build an image")?;
    let backend = engine.placement().choose_backend(input.backend.as_deref())?;
    let images = engine.placement().images(Some(backend.name()))?;
    if let Some(builder) = backend.builder() {
        let image = builder.build(&recipe, call)?;
        engine.holdings().adopt_own(backend.name(), std::slice::from_ref(&image));
        return Ok(Output { image, built_by: backend.name().to_owned() });
    }
    let (other, builder) = engine.placement().other_builder(backend.name())?;
    builder.build(&recipe, call)?;
    let loaded = images.load(builder.export(&recipe.tag)?, call)?;
    engine.holdings().adopt_own(backend.name(), &loaded);
    let name = recipe.tag.to_string();
    let image = loaded.into_iter().find(|stored| stored.reference == name).ok_or_else(|| {
        Error::new(Kind::Internal, format!("`{}` handed over an archive without `{name}`", other.name()))
    })?;
    Ok(Output { image, built_by: other.name().to_owned() })
}
