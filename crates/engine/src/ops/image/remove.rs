//! `image_remove`: forgets an image, by its name or its digest. Sandboxes made from it keep what they use. A tenant lets
//! go of one it brought, which stays for others who did.

pub use coracle_core::image::Removed as Output;

use coracle_core::image::Images;
use coracle_core::{Error, ImageId, Kind, Result, tenant};
use schemars::JsonSchema;
use serde::Deserialize;

use super::reference;
use crate::catalogue::{Facts, Model, Scope, Set};
use crate::{Call, Engine};

/// A shorter beginning of a digest is more likely a name, or a slip. Listings show as much.
const DIGITS_MIN: usize = 12;

pub const FACTS: Facts = Facts::destroys(
    "image_remove",
    "Remove an image",
    "Forgets an image and removes what nothing else uses of it",
)
.among(Set::Images)
.within(Scope::Everybody)
.for_models(Model::AllFields);

#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// A reference, a digest, or the first 12 or more digits of one.
    pub name: String,
    /// The backend that has it; the preferred one if absent.
    #[serde(default)]
    pub backend: Option<String>,
}

pub fn call(engine: &Engine, call: &Call, input: Input) -> Result<Output> {
    let caller = &call.caller;
    let backend = engine.access().choose_for(caller, input.backend.as_deref())?;
    let images = engine.placement().images_of(backend)?;
    if let Some(image) = ImageId::among_names(&input.name) {
        if caller.tenant.is_none() {
            engine.access().check_own(caller, "removing a snapshot")?;
        } else {
            engine.access().find_snapshot(caller, Some(images), &image)?;
        }
        return images.remove(image.as_str());
    }
    if let Some(tenant) = &caller.tenant {
        let reference = reference("name", &input.name).map(|reference| reference.to_string());
        let own = |reference: &String| {
            engine.holdings().claims().is_some_and(|claims| claims.has(tenant, backend.name(), reference))
        };
        return match reference.ok().filter(own) {
            Some(reference) => engine.holdings().let_go_of(tenant, backend, &reference),
            // Others use it, too.
            None => Err(tenant::denied("removing an image everybody shares")),
        };
    }
    engine.access().check_own(caller, "removing an image everybody shares")?;
    let removed = match digest(images, &input.name)? {
        Some(digest) => images.remove(&digest),
        None => images.remove(&reference("name", &input.name)?.to_string()),
    }?;
    for reference in &removed.references {
        engine.holdings().claims().iter().for_each(|claims| claims.forget(backend.name(), reference));
    }
    Ok(removed)
}

/// Returns the digest that was meant, if one was. A name that could be both and is here is a name.
fn digest(images: &dyn Images, name: &str) -> Result<Option<String>> {
    let digits = name.strip_prefix("sha256:").unwrap_or(name);
    let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    if !(DIGITS_MIN..=64).contains(&digits.len()) || !digits.bytes().all(is_digit) {
        return Ok(None);
    }
    let listed = images.list()?;
    let whole = reference("name", name).map(|reference| reference.to_string()).ok();
    if listed.iter().any(|stored| Some(&stored.reference) == whole.as_ref()) {
        return Ok(None);
    }
    let beginning = format!("sha256:{digits}");
    let mut meant: Vec<_> = listed
        .into_iter()
        .map(|stored| stored.digest)
        .filter(|digest| digest.starts_with(&beginning))
        .collect();
    meant.sort();
    meant.dedup();
    match meant.len() {
        // A whole digest is no name, whether or not it is here.
        0 if digits.len() == 64 => Ok(Some(beginning)),
        0 | 1 => Ok(meant.pop()),
        _ => Err(Error::new(Kind::Conflict, format!("`{name}` begins the digests of several images"))
            .hint("write more of the digest")
            .detail("digests", meant)),
    }
}
