//! Images in memory, with a registry to pull them from. Stricter than the real ones: a short name is a bug of the
//! caller.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Read;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use coracle_core::clock::Timestamp;
use coracle_core::error::{Error, Kind, Result};
use coracle_core::ids::{ImageId, SandboxId, TenantId};
use coracle_core::image::{Config, Images, Phase, Progress, Reference, Removed, Silent, Step, Stored};

/// The size of one letter of a layer's name.
const BYTES_PER_LETTER: u64 = 1000;

/// The images of one home. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct FakeImages(Arc<Mutex<Shelf>>);

#[derive(Debug, Default)]
struct Shelf {
    /// The images in the registry, by name.
    published: BTreeMap<String, Manifest>,
    /// The stored images, by name.
    names: BTreeMap<String, Stored>,
    /// The stored manifests, by digest.
    manifests: BTreeMap<String, Manifest>,
    layers: BTreeSet<String>,
    /// The digest each sandbox was made from.
    used: BTreeMap<SandboxId, String>,
    transfers: u64,
    broken: bool,
}

/// An image in the registry: the names of its layers, and its config.
#[derive(Debug, Clone)]
struct Manifest {
    layers: Vec<String>,
    config: Config,
}

impl FakeImages {
    /// Puts an image into the registry, replacing one of that name. Its digest is made up.
    pub fn publish(&self, name: &str, layers: &[&str], config: Config) {
        let layers = layers.iter().map(ToString::to_string).collect();
        self.shelf().published.insert(written_out(name), Manifest { layers, config });
    }

    /// Makes the next pull fail after the first layer.
    pub fn break_next_pull(&self) {
        self.shelf().broken = true;
    }

    /// Returns how many layers were ever transferred.
    pub fn transfers(&self) -> u64 {
        self.shelf().transfers
    }

    /// Returns the config of a stored image, and keeps its layers for the sandbox.
    ///
    /// # Panics
    /// If it is not stored: the caller must pull the image before it makes a sandbox.
    pub(super) fn take(&self, sandbox: &SandboxId, name: &str) -> Config {
        let mut shelf = self.shelf();
        let stored = shelf.names.get(name).unwrap_or_else(|| panic!("image `{name}` was not brought before"));
        let digest = stored.digest.clone();
        shelf.used.insert(sandbox.clone(), digest.clone());
        Config { digest: Some(digest.clone()), ..shelf.manifests[&digest].config.clone() }
    }

    /// Releases what a sandbox used.
    pub(super) fn let_go(&self, sandbox: &SandboxId) {
        self.shelf().used.remove(sandbox);
    }

    /// Keeps the files of a sandbox, which are not real, as an image.
    pub(super) fn keep(&self, image: &ImageId, tenant: Option<&TenantId>) -> Result<Stored> {
        let mut shelf = self.shelf();
        let manifest = Manifest { layers: vec![image.to_string()], config: Config::default() };
        let stored = shelf.bring(image.to_string(), manifest, &Silent)?;
        let stored = Stored { tenant: tenant.cloned(), ..stored };
        shelf.names.insert(image.to_string(), stored.clone());
        Ok(stored)
    }

    pub(super) fn is_here(&self, name: &str) -> bool {
        self.shelf().names.contains_key(name)
    }

    fn shelf(&self) -> MutexGuard<'_, Shelf> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Images for FakeImages {
    fn pull(&self, reference: &Reference, progress: &dyn Progress) -> Result<Stored> {
        let mut shelf = self.shelf();
        let manifest = shelf.published(reference).cloned().ok_or_else(|| unknown(reference.to_string()))?;
        shelf.bring(reference.to_string(), manifest, progress)
    }

    /// Reads an archive in the fake's own format: on each line a name and its layers, separated by spaces.
    fn load(&self, mut archive: File, progress: &dyn Progress) -> Result<Vec<Stored>> {
        assert!(archive.metadata().is_ok_and(|metadata| metadata.is_file()), "an archive is a regular file");
        let mut text = String::new();
        archive.read_to_string(&mut text).map_err(|error| not_an_archive().caused_by(error))?;
        let mut images = Vec::new();
        for line in text.lines() {
            let (name, layers) = line.split_once(' ').ok_or_else(not_an_archive)?;
            let layers = layers.split(' ').map(ToString::to_string).collect();
            images.push((name.to_owned(), Manifest { layers, config: Config::default() }));
        }
        let mut shelf = self.shelf();
        images.into_iter().map(|(name, manifest)| shelf.bring(name, manifest, progress)).collect()
    }

    fn list(&self) -> Result<Vec<Stored>> {
        Ok(self.shelf().names.values().cloned().collect())
    }

    fn remove(&self, name: &str) -> Result<Removed> {
        let snapshot = ImageId::among_names(name).is_some();
        let whole = snapshot || name.starts_with("sha256:") || written_out(name) == name;
        assert!(whole, "`{name}` is neither a digest nor a name written out");
        let mut shelf = self.shelf();
        let named = |stored: &&Stored| stored.reference == name || stored.digest == name;
        let references: Vec<_> =
            shelf.names.values().filter(named).map(|stored| stored.reference.clone()).collect();
        if references.is_empty() {
            return Err(unknown(name.to_owned()));
        }
        shelf.names.retain(|reference, _| !references.contains(reference));
        Ok(Removed { references, ..shelf.sweep() })
    }

    fn collect(&self) -> Result<Removed> {
        Ok(self.shelf().sweep())
    }
}

impl Manifest {
    fn digest(&self) -> String {
        digest_of(&format!("{self:?}"))
    }
}

impl Shelf {
    fn published(&self, reference: &Reference) -> Option<&Manifest> {
        let Some(digest) = reference.digest() else { return self.published.get(&reference.to_string()) };
        let prefix = format!("{}:", reference.name());
        let of_name = self.published.iter().filter(|(name, _)| name.starts_with(&prefix));
        of_name.map(|(_, manifest)| manifest).find(|manifest| manifest.digest() == digest)
    }

    fn bring(&mut self, reference: String, manifest: Manifest, progress: &dyn Progress) -> Result<Stored> {
        let digest = manifest.digest();
        let (layers, size_bytes) =
            (manifest.layers.len(), manifest.layers.iter().map(|name| weight(name)).sum());
        progress.report(&Step::Resolved { reference: reference.clone(), digest: digest.clone(), layers });
        for layer in &manifest.layers {
            self.bring_layer(layer, progress);
            if std::mem::take(&mut self.broken) {
                return Err(Error::new(Kind::NotAvailable, "told to break off"));
            }
        }
        self.manifests.insert(digest.clone(), manifest);
        let stored = Stored {
            reference: reference.clone(),
            digest: digest.clone(),
            platform: "linux/amd64".to_owned(),
            size_bytes,
            layers: layers as u64,
            pulled_at: Timestamp::from_millis(1_700_000_000_000),
            tenant: None,
        };
        self.names.insert(reference.clone(), stored.clone());
        progress.report(&Step::Finished { reference, digest });
        Ok(stored)
    }

    fn bring_layer(&mut self, layer: &str, progress: &dyn Progress) {
        let (digest, total) = (digest_of(layer), weight(layer));
        let report = |phase: Phase, done: u64| {
            progress.report(&Step::Layer { digest: digest.clone(), phase, done, total });
        };
        if !self.layers.insert(layer.to_owned()) {
            return report(Phase::Present, total);
        }
        self.transfers += 1;
        report(Phase::Waiting, 0);
        report(Phase::Downloading, 0);
        report(Phase::Downloading, total);
        report(Phase::Unpacking, total);
        report(Phase::Done, total);
    }

    /// Removes what no name and no sandbox uses.
    fn sweep(&mut self) -> Removed {
        let named = self.names.values().map(|stored| &stored.digest);
        let kept: BTreeSet<_> = named.chain(self.used.values()).cloned().collect();
        self.manifests.retain(|digest, _| kept.contains(digest));
        let needed: BTreeSet<_> =
            self.manifests.values().flat_map(|manifest| &manifest.layers).cloned().collect();
        let gone: Vec<_> = self.layers.difference(&needed).cloned().collect();
        self.layers = needed;
        let bytes = gone.iter().map(|layer| weight(layer)).sum();
        Removed { references: Vec::new(), layers: gone.len() as u64, bytes }
    }
}

fn weight(layer: &str) -> u64 {
    layer.len() as u64 * BYTES_PER_LETTER
}

/// Not a real digest, but of the same form and equal for equal content.
fn digest_of(content: &str) -> String {
    let mut hasher = DefaultHasher::new();
    content.hash(&mut hasher);
    format!("sha256:{}", format!("{:016x}", hasher.finish()).repeat(4))
}

fn written_out(name: &str) -> String {
    let reference: Reference = name.parse().unwrap_or_else(|error| panic!("`{name}` is no name: {error}"));
    reference.to_string()
}

fn unknown(name: String) -> Error {
    Error::new(Kind::ImageNotFound, format!("there is no image `{name}`")).detail("image", name)
}

fn not_an_archive() -> Error {
    Error::new(Kind::Invalid, "could not read the archive: it is none")
}
