//! Removes an image from the container engine. One that a container uses stays: we never force the removal.

use bollard::models::ImageDeleteResponseItem;
use bollard::query_parameters::RemoveImageOptions;
use coracle_core::image::{Images, Removed, Stored};
use coracle_core::{Error, Kind, Result};

use super::{Docker, failure, missing};

/// Removes the names of images with this full name, or this digest.
pub fn remove(engine: &Docker, name: &str) -> Result<Removed> {
    let mut meant: Vec<Stored> = engine.list()?;
    meant.retain(|stored| stored.reference == name || stored.digest == name);
    if meant.is_empty() {
        return Err(missing(name));
    }
    let mut removed = Removed::default();
    for stored in meant {
        let items = forget(engine, &stored.reference)?;
        let layers = items.iter().filter(|item| item.deleted.is_some()).count() as u64;
        removed.layers += layers;
        // The container engine does not report what other images share; if no layer was removed, nothing was freed.
        removed.bytes += if layers > 0 { stored.size_bytes } else { 0 };
        removed.references.push(stored.reference);
    }
    Ok(removed)
}

fn forget(engine: &Docker, name: &str) -> Result<Vec<ImageDeleteResponseItem>> {
    let attempted = format!("remove image `{name}`");
    engine.client.ask(&attempted, |docker| async move {
        match docker.remove_image(name, None::<RemoveImageOptions>, None).await {
            Ok(items) => Ok(Ok(items)),
            Err(error) if failure::is_status(&error, 404) => Ok(Err(missing(name))),
            Err(error) if failure::is_status(&error, 409) => Ok(Err(used(name, &error.to_string()))),
            Err(error) => Err(error),
        }
    })?
}

fn used(name: &str, said: &str) -> Error {
    Error::new(Kind::Conflict, format!("image `{name}` is in use: {said}"))
        .hint("close the sandboxes made from it, and remove other containers of it")
        .detail("image", name)
}
