//! The images that are here: whole layers, each once, and names that lead to them.
//!
//! Every process of every user of one home uses the same directory at the same time. What is there is whole: layers,
//! records and names appear by renaming. Two who bring the same layer do not wait for each other: the first to finish
//! puts it in place, the other finds it there and drops its own.

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

/// The moments [`StoreConfig::crash`] is called at.
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

/// The lock that those who bring or use layers share, and that whoever removes some has alone.
const HOLD: &str = "hold";

/// What a store is told once, of the machine and by its operator.
#[derive(Debug, Clone)]
pub struct StoreConfig {
    /// Everything is below it; nobody else may enter it.
    pub directory: PathBuf,
    pub registries: Registries,
    /// Tells the time a name is noted with.
    pub clock: fn() -> Timestamp,
    /// Called at named moments, for crash tests.
    pub crash: fn(&'static str),
    /// Has pullers of one blob wait for each other: the attack suite's weakened twin, and nothing else.
    pub in_turn: bool,
}

/// How registries are spoken to.
#[derive(Debug, Clone, Default)]
pub struct Registries {
    /// `host[:port]` of registries that may be spoken to without TLS, besides those on this machine.
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

/// One image, ready to be made a sandbox from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image {
    /// Of the manifest for this platform.
    pub digest: String,
    /// Directories ready to be layers of an overlay, bottom first.
    pub layers: Vec<PathBuf>,
    pub config: Config,
    /// What the image sets in the environment. From a stranger: it is the reader's to decide what to take.
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
    /// Names the store; touches nothing.
    pub fn new(config: StoreConfig) -> Self {
        let layout = Layout::new(config.directory.clone());
        Self { config, layout, limits: Limits::default() }
    }

    /// Takes smaller layers only.
    #[cfg(feature = "testing")]
    pub fn with_limits(self, limits: Limits) -> Self {
        Self { limits, ..self }
    }

    /// Finds an image that is here by its name. Reads two small files.
    pub fn find(&self, reference: &Reference) -> Result<Option<Image>> {
        let named: Option<Named> = read(&self.layout.reference(&reference.to_string()))?;
        // What a digest names is the same thing whatever name it came by.
        let pinned = || reference.digest().and_then(Digest::parse);
        let Some(digest) = named.map(|named| named.digest).or_else(pinned) else { return Ok(None) };
        let record: Option<Record> = read(&self.layout.record(&digest))?;
        Ok(record.and_then(|record| record.image(&self.layout)))
    }

    /// Returns the image with this digest, whatever names lead to it.
    pub fn find_digest(&self, digest: &str) -> Result<Option<Image>> {
        let Some(digest) = Digest::parse(digest) else { return Ok(None) };
        let record: Option<Record> = read(&self.layout.record(&digest))?;
        Ok(record.and_then(|record| record.image(&self.layout)))
    }

    /// Brings what `reference` names now, for this machine's platform.
    pub fn pull(&self, reference: &Reference, progress: &dyn Progress) -> Result<Stored> {
        pull::pull(self, reference, progress)
    }

    /// Brings the images in an archive as `docker save` or an OCI layout has them.
    pub fn load(&self, archive: File, progress: &dyn Progress) -> Result<Vec<Stored>> {
        load::load(self, archive, progress)
    }

    /// Lists what is here, by name.
    pub fn list(&self) -> Result<Vec<Stored>> {
        let mut list = Vec::new();
        for named in self.names()? {
            let record: Option<Record> = read(&self.layout.record(&named.digest))?;
            list.extend(record.map(|record| record.stored(&named)));
        }
        list.sort_by(|one: &Stored, other| one.reference.cmp(&other.reference));
        Ok(list)
    }

    /// Forgets the images with this name or digest, and removes the layers that then nothing uses. `used` tells the
    /// digests of images that sandboxes are made from; it is asked when nobody can begin to use another. While images
    /// are brought or held, layers stay until [`Store::collect`].
    pub fn remove(&self, name: &str, used: &dyn Fn() -> Result<BTreeSet<String>>) -> Result<Removed> {
        remove::remove(self, name, used)
    }

    /// Removes what no name and no sandbox uses, and what dead processes left half done. Does nothing while images are
    /// brought or held.
    pub fn collect(&self, used: &dyn Fn() -> Result<BTreeSet<String>>) -> Result<Removed> {
        remove::collect(self, used)
    }

    /// Keeps layers from being removed. Held from [`Store::find`] until the sandbox's own note of the digest is written.
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

    /// Writes down an image whose layers are here, then the name that leads to it.
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
