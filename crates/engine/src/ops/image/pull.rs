//! `image_pull`: brings an image from its registry.

pub use coracle_core::image::Stored as Output;

use coracle_core::{Result, tenant};
use schemars::JsonSchema;
use serde::Deserialize;

use super::reference;
use crate::catalogue::{Facts, Model, Reach, Repeat, Scope, Set};
use crate::{Call, Engine};

pub const FACTS: Facts = Facts::changes("image_pull", "Bring an image", "Brings an image from its registry")
    .repeats(Repeat::Always)
    .reaching(Reach::World)
    .among(Set::Images)
    .within(Scope::Everybody)
    .for_models(Model::AllFields);

#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// As in `python:3.12`, `ghcr.io/owner/name` or `name@sha256:…`.
    pub reference: String,
    /// The backend that shall have it; the preferred one if absent.
    #[serde(default)]
    pub backend: Option<String>,
}

pub fn call(engine: &Engine, call: &Call, input: Input) -> Result<Output> {
    let caller = &call.caller;
    let reference = reference("reference", &input.reference)?;
    engine.access().policy_for(caller).images.check_reference(&reference)?;
    engine.access().check_choice(caller, &reference.to_string())?;
    if caller.tenant.is_some() {
        tenant::check_registry(&reference.to_string(), &engine.access().policy_for(caller).images)?;
    }
    engine.headroom().expect("pull an image")?;
    let backend = engine.access().choose_for(caller, input.backend.as_deref())?;
    let images = engine.placement().images_of(backend)?;
    let stored =
        engine.holdings().hold_image(caller.tenant.as_ref(), backend, &reference.to_string(), || {
            images.pull(&reference, call)
        })?;
    if caller.tenant.is_none() {
        engine.holdings().adopt_own(backend.name(), std::slice::from_ref(&stored));
    }
    Ok(stored)
}
