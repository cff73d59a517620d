//! Images: how they are named, what is known about a stored one, and the port to where backends keep them.

mod allow;
pub mod build;
mod reference;

use std::fs::File;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::cancel::Cancel;
use crate::clock::Timestamp;
use crate::error::Result;
use crate::ids::TenantId;

pub use allow::Allowed;
pub use build::{Builder, Recipe};
pub use reference::Reference;

/// The image that consists of the machine's own programs. It cannot be pulled or removed.
pub const HOST: &str = "host";

/// One stored image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Stored {
    /// The name it was pulled or loaded by, in full: with registry, path and tag.
    pub reference: String,
    /// The digest of the manifest for this platform. Sandboxes are made from it, whatever the name leads to later.
    pub digest: String,
    /// As in `linux/amd64`.
    pub platform: String,
    /// The unpacked size of its layers; each image counts the layers it shares with others.
    pub size_bytes: u64,
    pub layers: u64,
    pub pulled_at: Timestamp,
    /// The owner, where it was made from a tenant's sandbox.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<TenantId>,
}

/// What an image declares about itself. Defaults for commands, never a reason to allow anything.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Config {
    /// The digest of the manifest the sandbox was made from; the `host` image has none.
    pub digest: Option<String>,
    pub workdir: Option<String>,
    pub user: Option<String>,
    pub entrypoint: Vec<String>,
    pub cmd: Vec<String>,
}

/// The result of a removal.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Removed {
    /// The names that were removed.
    pub references: Vec<String>,
    /// The number of removed layers: those that no image and no sandbox uses any more.
    pub layers: u64,
    pub bytes: u64,
}

/// How far a pull or build of an image has come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// The registry resolved the name.
    Resolved { reference: String, digest: String, layers: usize },
    /// One layer moved on. `total` is 0 if unknown.
    Layer { digest: String, phase: Phase, done: u64, total: u64 },
    /// A line of a build: a step's own output, or the start of the next step. It may contain anything a step prints.
    Said { line: String },
    /// The image is stored.
    Finished { reference: String, digest: String },
}

/// What is happening to a layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Phase {
    Waiting,
    Downloading,
    Unpacking,
    /// It is stored now.
    Done,
    /// It was stored already.
    Present,
}

/// Receives progress of a pull or build.
pub trait Progress: Send + Sync {
    /// Receives every step; often, and from several threads. Must not block.
    fn report(&self, step: &Step);

    /// Returns the signal that ends the work early. Pulls and builds check it often, and end within a second.
    fn cancel(&self) -> Cancel {
        Cancel::default()
    }
}

/// Ignores progress.
#[derive(Debug, Clone, Copy, Default)]
pub struct Silent;

impl Progress for Silent {
    fn report(&self, _step: &Step) {}
}

/// Where a backend keeps images.
pub trait Images: Send + Sync {
    /// Pulls what `reference` names now, for this machine's platform. Simultaneous pulls of one image cause one
    /// transfer. Layers that are stored are not transferred again; after a crash the pull goes on where it stopped.
    /// Fails with `image_not_found` if the registry has none of that name, and then nothing here has changed.
    fn pull(&self, reference: &Reference, progress: &dyn Progress) -> Result<Stored>;

    /// Loads the images in an archive as `docker save` or an OCI layout has them. The archive is a regular file.
    fn load(&self, archive: File, progress: &dyn Progress) -> Result<Vec<Stored>>;

    /// Lists stored images, by name.
    fn list(&self) -> Result<Vec<Stored>>;

    /// Forgets the images with this full name or this digest. Layers that sandboxes still use stay until
    /// [`Images::collect`]. Fails with `image_not_found` if there is none.
    fn remove(&self, name: &str) -> Result<Removed>;

    /// Removes what no name and no sandbox uses, and what dead processes left half done.
    fn collect(&self) -> Result<Removed>;
}
