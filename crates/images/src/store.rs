//! The local images: complete layers, each once, and names that lead to them.
//!
//! All processes that use one home use the same directory at the same time. Everything in it is complete: layers,
//! records and names appear by renaming. Two processes that pull the same layer do not wait for each other: the
//! first to finish puts it in place, the other finds it there and drops its own.

mod download;
mod draft;
mod layer;
mod layout;
mod load;
mod lock;
mod meter;
mod partial;
mod pull;
mod record;
mod remove;

use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::path::PathBuf;

use coracle_core::image::{Config, Progress, Reference, Removed, Step, Stored};
use coracle_core::{Result, Timestamp};
use coracle_unpack::Limits;

use crate::digest::Digest;
use crate::manifest::Configuration;
pub use download::Pace;
use layer::kept;
use layout::Layout;
use record::{Named, Record};

/// The points at which [`StoreConfig::crash`] is called.
pub const CRASH_POINTS: &[&str] = &[
    "images.pull.resolved",
    "images.pull.downloaded",
    "images.layer.unpacked",
    "images.layer.synced",
    "images.pull.unpacked",
    "images.pull.layers",
    "images.load.layers",
    "images.keep.record",
    "images.remove.forgotten",
    "images.remove.records",
    "images.remove.layer",
];

/// The lock that pullers and users of layers share, and that a removal takes exclusively.
const HOLD: &str = "hold";

/// Settings of a store: facts of the machine and the operator's choices.
#[derive(Debug, Clone)]
pub struct StoreConfig {
    /// Everything is below it; no other user may enter it.
    pub directory: PathBuf,
    pub registries: Registries,
    /// Returns the time that is stored with a name.
    pub clock: fn() -> Timestamp,
    /// Called at named points, for crash tests.
    pub crash: fn(&'static str),
    /// Makes pullers of one blob wait for each other: only for the attack suite's weakened twin.
    pub in_turn: bool,
}

/// How to talk to registries.
#[derive(Debug, Clone, Default)]
pub struct Registries {
    /// `host[:port]` of registries we may talk to without TLS, besides those on this machine.
    pub plain_http: Vec<String>,
    /// `host[:port]` that registries may lead to although the address is private, and whose token servers may see
    /// credentials.
    pub private: Vec<String>,
    /// The directory of Docker's `config.json`.
    pub docker_config: Option<PathBuf>,
    /// A PEM file with certificates to trust beside the machine's.
    pub extra_roots: Option<PathBuf>,
    pub pace: Pace,
}

/// One image, ready to make a sandbox from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image {
    /// The digest of the manifest for this platform.
    pub digest: String,
    /// Directories ready to be layers of an overlay, bottom first.
    pub layers: Vec<PathBuf>,
    pub config: Config,
    /// The environment the image sets. Untrusted: the reader decides what to take.
    pub env: Vec<(String, String)>,
}

/// While it lives, no layer is removed.
#[derive(Debug)]
pub struct Hold {
    _lock: File,
}

/// See the module.
#[derive(Debug)]
pub struct Store {
    config: StoreConfig,
    layout: Layout,
    limits: Limits,
}

impl Store {
    /// Makes the value; touches nothing on disk.
    pub fn new(config: StoreConfig) -> Self {
        let layout = Layout::new(config.directory.clone());
        Self { config, layout, limits: Limits::default() }
    }

    /// Accepts smaller layers only.
    #[cfg(feature = "testing")]
    pub fn with_limits(self, limits: Limits) -> Self {
        Self { limits, ..self }
    }

    /// Finds a local image by its name. Reads two small files.
    pub fn find(&self, reference: &Reference) -> Result<Option<Image>> {
        let named: Option<Named> = read(&self.layout.reference(&reference.to_string()))?;
        // A digest names the same content, whatever the rest of the name is.
        let pinned = || reference.digest().and_then(Digest::parse);
        let Some(digest) = named.map(|named| named.digest).or_else(pinned) else { return Ok(None) };
        let record: Option<Record> = read(&self.layout.record(&digest))?;
        Ok(record.and_then(|record| record.image(&self.layout)))
    }

    /// Returns the image with this digest, under any name.
    pub fn find_digest(&self, digest: &str) -> Result<Option<Image>> {
        let Some(digest) = Digest::parse(digest) else { return Ok(None) };
        let record: Option<Record> = read(&self.layout.record(&digest))?;
        Ok(record.and_then(|record| record.image(&self.layout)))
    }

    /// Pulls what `reference` names now, for this machine's platform.
    pub fn pull(&self, reference: &Reference, progress: &dyn Progress) -> Result<Stored> {
        pull::pull(self, reference, progress)
    }

    /// Loads the images of an archive that `docker save` or an OCI tool wrote.
    pub fn load(&self, archive: File, progress: &dyn Progress) -> Result<Vec<Stored>> {
        load::load(self, archive, progress)
    }

    /// Lists the local images, by name.
    pub fn list(&self) -> Result<Vec<Stored>> {
        let mut list = Vec::new();
        for named in self.names()? {
            let record: Option<Record> = read(&self.layout.record(&named.digest))?;
            list.extend(record.map(|record| record.stored(&named)));
        }
        list.sort_by(|one: &Stored, other| one.reference.cmp(&other.reference));
        Ok(list)
    }

    /// Removes the names of the images with this name or digest, and the layers that nothing uses then. `used`
    /// returns the digests of images that sandboxes are made from; it is called when no process can begin to use
    /// another. While images are pulled or held, layers stay until [`Store::collect`].
    pub fn remove(&self, name: &str, used: &dyn Fn() -> Result<BTreeSet<String>>) -> Result<Removed> {
        remove::remove(self, name, used)
    }

    /// Removes what no name and no sandbox uses, and what dead processes left incomplete. Does nothing while images
    /// are pulled or held.
    pub fn collect(&self, used: &dyn Fn() -> Result<BTreeSet<String>>) -> Result<Removed> {
        remove::collect(self, used)
    }

    /// Keeps layers from being removed. Hold it from [`Store::find`] until the sandbox's own record of the digest
    /// is written.
    pub fn hold(&self) -> Result<Hold> {
        let path = self.layout.lock(HOLD);
        let lock = match lock::shared(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.prepare()?;
                lock::shared(&path)
            }
            lock => lock,
        };
        Ok(Hold { _lock: lock.map_err(kept("lock layers"))? })
    }

    fn prepare(&self) -> Result<()> {
        self.layout.prepare().map_err(kept("make directories"))
    }

    /// Records an image whose layers are complete, then the name that leads to it.
    fn keep(
        &self,
        reference: &str,
        digest: Digest,
        configuration: Configuration,
        progress: &dyn Progress,
    ) -> Result<Stored> {
        let record = self.record(digest.clone(), configuration)?;
        record::write(&self.layout, &self.layout.record(&digest), &record).map_err(kept("note an image"))?;
        (self.config.crash)("images.keep.record");
        let named = Named { reference: reference.to_owned(), digest, pulled_at: (self.config.clock)() };
        record::write(&self.layout, &self.layout.reference(reference), &named)
            .map_err(kept("note a name"))?;
        let stored = record.stored(&named);
        progress
            .report(&Step::Finished { reference: stored.reference.clone(), digest: stored.digest.clone() });
        Ok(stored)
    }

    fn record(&self, digest: Digest, configuration: Configuration) -> Result<Record> {
        let sizes =
            configuration.diff_ids.iter().map(|diff_id| Ok(draft::about(&self.layout, diff_id)?.bytes));
        let size_bytes = sizes.sum::<io::Result<u64>>().map_err(kept("read a layer"))?;
        let Configuration { platform, diff_ids, workdir, user, entrypoint, cmd, env } = configuration;
        let config = Config { digest: Some(digest.to_string()), workdir, user, entrypoint, cmd };
        Ok(Record { digest, platform: platform.to_string(), layers: diff_ids, size_bytes, config, env })
    }

    fn names(&self) -> Result<Vec<Named>> {
        let paths = layout::entries(&self.layout.references()).map_err(kept("list names"))?;
        paths.iter().filter_map(|path| read(path).transpose()).collect()
    }
}

fn read<T: serde::de::DeserializeOwned>(path: &std::path::Path) -> Result<Option<T>> {
    record::read(path).map_err(kept("read what is noted"))
}
