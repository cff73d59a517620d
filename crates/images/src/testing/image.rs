//! Makes an image from layers: its configuration, its manifest, and archives of the kinds that tools write.

use serde_json::{Value, json};

use super::layer::{Compression, Layer};
use crate::digest::Digest;
use crate::platform::Platform;

/// Content with its digest.
#[derive(Debug, Clone)]
pub struct Blob {
    pub digest: String,
    pub bytes: Vec<u8>,
}

impl Blob {
    pub fn new(bytes: Vec<u8>) -> Self {
        Self { digest: Digest::of(&bytes).to_string(), bytes }
    }
}

/// An image. Its documents are plain JSON, for tests to corrupt.
#[derive(Debug, Clone)]
pub struct Image {
    pub configuration: Value,
    pub manifest: Value,
    /// The layers as they are sent.
    pub layers: Vec<Blob>,
    /// The archives in them.
    pub archives: Vec<Vec<u8>>,
}

impl Image {
    /// Makes an image of layers, bottom first, for this machine.
    pub fn new(layers: &[(Layer, Compression)]) -> Self {
        let archives: Vec<Vec<u8>> = layers.iter().map(|(layer, _)| layer.archive()).collect();
        let packed = layers
            .iter()
            .zip(&archives)
            .map(|((_, compression), archive)| (compression.pack(archive), *compression));
        Self::of_parts(archives.clone(), packed.collect())
    }

    /// Makes an image of layers as they are sent and the archives they should contain.
    pub fn of_parts(archives: Vec<Vec<u8>>, packed: Vec<(Vec<u8>, Compression)>) -> Self {
        let Platform { os, architecture, .. } = Platform::here();
        let diff_ids: Vec<String> = archives.iter().map(|archive| Digest::of(archive).to_string()).collect();
        let configuration = json!({
            "os": os, "architecture": architecture,
            "config": {"Env": ["PATH=/bin", "GREETING=hello"], "Cmd": ["/bin/sh"], "WorkingDir": "/srv"},
            "rootfs": {"type": "layers", "diff_ids": diff_ids},
        });
        let descriptors: Vec<Value> =
            packed.iter().map(|(bytes, compression)| descriptor(compression.media_type(), bytes)).collect();
        let manifest = json!({
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": descriptor("application/vnd.oci.image.config.v1+json", configuration.to_string().as_bytes()),
            "layers": descriptors,
        });
        let layers = packed.into_iter().map(|(bytes, _)| Blob::new(bytes)).collect();
        Self { configuration, manifest, layers, archives }
    }

    /// Makes an image with one layer of one gzip-compressed archive.
    pub fn single(layer: Layer) -> Self {
        Self::new(&[(layer, Compression::Gzip)])
    }

    /// Changes the configuration, and the manifest so that it still matches.
    pub fn configured(mut self, change: impl FnOnce(&mut Value)) -> Self {
        change(&mut self.configuration);
        let bytes = self.configuration.to_string().into_bytes();
        self.manifest["config"] = descriptor("application/vnd.oci.image.config.v1+json", &bytes);
        self
    }

    pub fn configuration_blob(&self) -> Blob {
        Blob::new(self.configuration.to_string().into_bytes())
    }

    pub fn manifest_blob(&self) -> Blob {
        Blob::new(self.manifest.to_string().into_bytes())
    }

    /// Returns the manifest's digest.
    pub fn digest(&self) -> String {
        self.manifest_blob().digest
    }

    /// Returns an archive as `docker save` wrote it before OCI.
    pub fn docker_save(&self, tags: &[&str]) -> Vec<u8> {
        let configuration = self.configuration_blob();
        let name = |index: usize| format!("layer-{index}/layer.tar");
        let names: Vec<String> = (0..self.archives.len()).map(name).collect();
        let manifest = json!([{
            "Config": format!("{}.json", &configuration.digest["sha256:".len()..]),
            "RepoTags": tags, "Layers": names,
        }]);
        let mut archive = Layer::new();
        for (index, layer) in self.archives.iter().enumerate() {
            archive = archive.file(&name(index), 0o644, layer);
        }
        archive
            .file(&format!("{}.json", &configuration.digest["sha256:".len()..]), 0o644, &configuration.bytes)
            .file("manifest.json", 0o644, manifest.to_string().as_bytes())
            .archive()
    }

    /// Returns an archive of an OCI layout. `annotations` are those of the one image in its index.
    pub fn oci_layout(&self, annotations: Value) -> Vec<u8> {
        let manifest = self.manifest_blob();
        let mut listed = descriptor("application/vnd.oci.image.manifest.v1+json", &manifest.bytes);
        listed["annotations"] = annotations;
        let index = json!({"schemaVersion": 2, "manifests": [listed]});
        let mut archive = Layer::new().file("oci-layout", 0o644, br#"{"imageLayoutVersion":"1.0.0"}"#);
        for blob in [self.configuration_blob(), manifest].iter().chain(&self.layers) {
            archive = archive.file(&format!("blobs/{}", blob.digest.replace(':', "/")), 0o644, &blob.bytes);
        }
        archive.file("index.json", 0o644, index.to_string().as_bytes()).archive()
    }
}

/// Returns a pointer to content, as manifests write it.
pub fn descriptor(media_type: &str, bytes: &[u8]) -> Value {
    json!({"mediaType": media_type, "digest": Digest::of(bytes).as_str(), "size": bytes.len()})
}
