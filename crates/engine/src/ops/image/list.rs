//! `image_list`: lists the images that are here, by name.

use coracle_core::image::Stored;
use coracle_core::{ImageId, Result};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::catalogue::{Answer, Facts, Model, Scope, Set};
use crate::{Call, Caller, Engine};

pub const FACTS: Facts = Facts::reads("image_list", "List images", "Lists the images that are here")
    .among(Set::Images)
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
    pub images: Vec<Stored>,
}

pub fn call(engine: &Engine, call: &Call, input: Input) -> Result<Output> {
    let caller = &call.caller;
    let mut images = engine.access().images_for(caller, input.backend.as_deref())?.list()?;
    if caller.tenant.is_some() || caller.ceiling.is_some() {
        images.retain(|stored| may_know(engine, caller, stored));
    }
    Ok(Output { images })
}

/// A tenant sees what it made and what it may use of what all share. Who comes through a door with a ceiling sees
/// what it may choose; snapshots are files of other sandboxes, which are not shown to it.
fn may_know(engine: &Engine, caller: &Caller, stored: &Stored) -> bool {
    match ImageId::among_names(&stored.reference) {
        Some(_) => caller.tenant.is_some() && stored.tenant == caller.tenant,
        None => stored.reference.parse().is_ok_and(|reference| {
            engine.access().policy_for(caller).images.check_reference(&reference).is_ok()
                && engine.access().check_choice(caller, &stored.reference).is_ok()
        }),
    }
}
