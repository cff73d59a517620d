//! The container engine's own images. They are the user's as much as ours: we list, pull and remove them on
//! request, and never sweep them.

mod body;
mod load;
mod progress;
mod pull;
mod remove;

pub use body::{Feed, feed};
pub use pull::credentials;

use std::fs::File;

use bollard::models::{ImageInspect, ImageSummary};
use bollard::query_parameters::ListImagesOptions;
use coracle_core::image::{Images, Progress, Reference, Removed, Stored};
use coracle_core::{Error, Kind, Result, Timestamp};

use super::{Docker, failure, install};

impl Images for Docker {
    fn pull(&self, reference: &Reference, progress: &dyn Progress) -> Result<Stored> {
        pull::pull(self, reference, progress)
    }

    fn load(&self, archive: File, progress: &dyn Progress) -> Result<Vec<Stored>> {
        load::load(self, archive, &progress.cancel())
    }

    fn list(&self) -> Result<Vec<Stored>> {
        let mut stored = Vec::new();
        for summary in self.summaries()? {
            // It may have been removed meanwhile: the container engine has other clients, too.
            let Some(image) = self.inspect(&summary.id)? else { continue };
            let found = names(&image).into_iter().map(|name| describe(&name, &image));
            stored.extend(found.map(|stored| Stored { pulled_at: seconds(summary.created), ..stored }));
        }
        stored.sort_by(|one: &Stored, other| one.reference.cmp(&other.reference));
        Ok(stored)
    }

    fn remove(&self, name: &str) -> Result<Removed> {
        remove::remove(self, name)
    }

    /// Removes no layers: only the container engine knows which images are used, and many are not ours. Removes
    /// only what an interrupted installation of the guest left.
    fn collect(&self) -> Result<Removed> {
        match install::tidy(self) {
            // A survey reports that a container engine does not answer.
            Err(error) if error.kind != Kind::NotAvailable => Err(error),
            Ok(()) | Err(_) => Ok(Removed::default()),
        }
    }
}

impl Docker {
    /// Pulls an image unless the container engine has it. Resolves a tag only once, as `docker run` does.
    pub(super) fn bring(&self, reference: &Reference, progress: &dyn Progress) -> Result<()> {
        match self.inspect(&reference.to_string())? {
            Some(_) => Ok(()),
            None => pull::pull(self, reference, progress).map(drop),
        }
    }

    /// Returns what the container engine knows of an image, by name or id.
    pub(super) fn inspect(&self, name: &str) -> Result<Option<ImageInspect>> {
        self.client.ask(&format!("look for image `{name}`"), |docker| async move {
            match docker.inspect_image(name).await {
                Ok(image) => Ok(Some(image)),
                Err(error) if failure::is_status(&error, 404) => Ok(None),
                Err(error) => Err(error),
            }
        })
    }

    fn summaries(&self) -> Result<Vec<ImageSummary>> {
        self.client
            .ask("list images", |docker| async move { docker.list_images(None::<ListImagesOptions>).await })
    }

    /// Returns an image that was just pulled, loaded or built.
    pub(super) fn stored(&self, reference: &Reference) -> Result<Stored> {
        let image = self.inspect(&reference.to_string())?.ok_or_else(|| missing(&reference.to_string()))?;
        Ok(Stored { pulled_at: (self.config.clock)(), ..describe(reference, &image) })
    }
}

/// Returns the names of an image: by tag, or by digest if it has no tag.
fn names(image: &ImageInspect) -> Vec<Reference> {
    let read = |names: &Option<Vec<String>>| -> Vec<Reference> {
        names.iter().flatten().filter_map(|name| name.parse().ok()).collect()
    };
    match read(&image.repo_tags) {
        tags if tags.is_empty() => read(&image.repo_digests),
        tags => tags,
    }
}

fn describe(reference: &Reference, image: &ImageInspect) -> Stored {
    let word = |text: &Option<String>| text.clone().unwrap_or_else(|| "unknown".to_owned());
    let layers = image.root_fs.as_ref().and_then(|root| root.layers.as_ref());
    Stored {
        reference: reference.to_string(),
        digest: digest(reference, image),
        platform: format!("{}/{}", word(&image.os), word(&image.architecture)),
        size_bytes: image.size.and_then(|size| u64::try_from(size).ok()).unwrap_or(0),
        layers: layers.map_or(0, |layers| layers.len() as u64),
        pulled_at: Timestamp::from_millis(0),
        tenant: None,
    }
}

/// Returns the registry's digest of the image; one that was built here has only the container engine's own.
pub fn digest(reference: &Reference, image: &ImageInspect) -> String {
    let pinned = image.repo_digests.iter().flatten().filter_map(|name| name.parse::<Reference>().ok());
    let mut of_name = pinned.filter(|pinned| pinned.name() == reference.name());
    let known = of_name.find_map(|pinned| pinned.digest().map(str::to_owned));
    known.or_else(|| image.id.clone()).map(whole).unwrap_or_default()
}

/// Podman leaves out the algorithm of its ids.
fn whole(id: String) -> String {
    match id.contains(':') {
        true => id,
        false => format!("sha256:{id}"),
    }
}

fn seconds(seconds: i64) -> Timestamp {
    Timestamp::from_millis(u64::try_from(seconds).unwrap_or(0).saturating_mul(1000))
}

pub fn missing(name: &str) -> Error {
    Error::new(Kind::ImageNotFound, format!("the engine has no image `{name}`")).detail("image", name)
}
