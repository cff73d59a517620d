//! The records of images: one file per image, and one per name that leads to it.

use std::fs;
use std::io;
use std::path::Path;

use coracle_core::Timestamp;
use coracle_core::image::{Config, Stored};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::Image;
use super::layout::{Layout, TREE};
use crate::digest::Digest;

/// One local image.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Record {
    /// The digest of its manifest.
    pub digest: Digest,
    pub platform: String,
    /// The digests of its uncompressed layers, bottom first.
    pub layers: Vec<Digest>,
    pub size_bytes: u64,
    pub config: Config,
    pub env: Vec<(String, String)>,
}

/// A name and what it led to.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Named {
    pub reference: String,
    pub digest: Digest,
    pub pulled_at: Timestamp,
}

impl Record {
    /// Returns the image, if all its layers exist.
    pub fn image(&self, layout: &Layout) -> Option<Image> {
        let layers = self.distinct().map(|diff_id| layout.layer(diff_id).join(TREE)).collect::<Vec<_>>();
        let whole = layers.iter().all(|layer| layer.symlink_metadata().is_ok());
        whole.then(|| Image {
            digest: self.digest.to_string(),
            layers,
            config: self.config.clone(),
            env: self.env.clone(),
        })
    }

    /// Returns the layers, each once, bottom first. An overlay accepts none twice; where a layer appears twice, the
    /// upper one has everything the lower one has.
    fn distinct(&self) -> impl Iterator<Item = &Digest> {
        let later = |index: usize| &self.layers[index + 1..];
        let layers = self.layers.iter().enumerate();
        layers.filter(move |(index, layer)| !later(*index).contains(layer)).map(|(_, layer)| layer)
    }

    pub fn stored(&self, named: &Named) -> Stored {
        Stored {
            reference: named.reference.clone(),
            digest: self.digest.to_string(),
            platform: self.platform.clone(),
            size_bytes: self.size_bytes,
            layers: self.layers.len() as u64,
            pulled_at: named.pulled_at,
            tenant: None,
        }
    }
}

/// Reads a record or a name. Returns `None` if it is missing or of another version's format.
pub fn read<T: DeserializeOwned>(path: &Path) -> io::Result<Option<T>> {
    match fs::read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        bytes => Ok(serde_json::from_slice(&bytes?).ok()),
    }
}

/// Writes a record or a name, complete or not at all.
pub fn write<T: Serialize>(layout: &Layout, path: &Path, value: &T) -> io::Result<()> {
    layout.write(path, &serde_json::to_vec(value).map_err(io::Error::other)?)
}
