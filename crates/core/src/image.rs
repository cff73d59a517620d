//! Images: how one is named, what is known of one that is here, and the port to where they are kept.

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

/// The image that is the machine's own programs. Nothing to pull, nothing to remove.
pub const HOST: &str = "host";

/// One image that is here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Stored {
    /// The name it was pulled or loaded by, with everything that may be left out filled in.
    pub reference: String,
    /// Of the manifest for this platform: what sandboxes are made from, whatever the name leads to later.
    pub digest: String,
    /// As in `linux/amd64`.
    pub platform: String,
    /// What its layers take unpacked; layers shared with other images are counted in each.
    pub size_bytes: u64,
    pub layers: u64,
    pub pulled_at: Timestamp,
    /// Whose it is, where it was made from a tenant's sandbox.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<TenantId>,
}

/// What an image says of itself. Data for whoever runs commands, never a reason to allow anything.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Config {
    /// Of the manifest the sandbox was made from; the `host` image has none.
    pub digest: Option<String>,
    pub workdir: Option<String>,
    pub user: Option<String>,
    pub entrypoint: Vec<String>,
    pub cmd: Vec<String>,
}

/// What became of a removal.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Removed {
    /// Names that are gone.
    pub references: Vec<String>,
    /// Layers that no image and no sandbox uses any more, and that are gone.
    pub layers: u64,
    pub bytes: u64,
}

/// How far bringing or building an image has come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// The name was looked up.
    Resolved { reference: String, digest: String, layers: usize },
    /// One layer moved on. `total` is 0 where it is not known.
    Layer { digest: String, phase: Phase, done: u64, total: u64 },
    /// A build said this: a line of a step's own, or that the next step begins. Whatever a step prints is in it.
    Said { line: String },
    /// The image is here.
    Finished { reference: String, digest: String },
}

/// What is being done to a layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Phase {
    Waiting,
    Downloading,
    Unpacking,
    /// It is here now.
    Done,
    /// It was here already.
    Present,
}

/// Someone who wants to know how far it is.
pub trait Progress: Send + Sync {
    /// Is told of every step; often, and from several threads. Must not block.
    fn report(&self, step: &Step);

    /// Returns what ends the work early. Whoever does it looks often, and ends within a second.
    fn cancel(&self) -> Cancel {
        Cancel::default()
    }
}

/// Nobody wants to know.
#[derive(Debug, Clone, Copy, Default)]
pub struct Silent;

impl Progress for Silent {
    fn report(&self, _step: &Step) {}
}

/// Where a backend keeps images.
pub trait Images: Send + Sync {
    /// Brings what `reference` names now, for this machine's platform. Many who ask for the same at once cause one
    /// transfer; what is here already is not transferred again; after a crash it goes on where it was. Fails with
    /// `image_not_found` if the registry has none of that name, and then nothing here has changed.
    fn pull(&self, reference: &Reference, progress: &dyn Progress) -> Result<Stored>;

    /// Brings the images in an archive as `docker save` or an OCI layout has them. The archive is a regular file.
    fn load(&self, archive: File, progress: &dyn Progress) -> Result<Vec<Stored>>;

    /// Lists what is here, by name.
    fn list(&self) -> Result<Vec<Stored>>;

    /// Forgets the images with this name, written out, or this digest. Layers that sandboxes still use stay until
    /// [`Images::collect`]. Fails with `image_not_found` if there is none.
    fn remove(&self, name: &str) -> Result<Removed>;

    /// Removes what no name and no sandbox uses, and what dead processes left half done.
    fn collect(&self) -> Result<Removed>;
}
