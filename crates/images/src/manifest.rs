//! Reads the documents of an image: index, manifest and configuration. All are untrusted.
//!
//! Reads only what we use. Labels, volumes, ports, health checks and triggers are not read, so they can do nothing.

use std::collections::BTreeMap;

use coracle_core::{Error, Kind, Result};
use serde::Deserialize;

use crate::digest::Digest;
use crate::platform::Platform;

/// The largest manifest or index; registries accept no larger ones.
pub const MANIFEST_MAX: u64 = 4 << 20;
/// The largest configuration.
pub const CONFIG_MAX: u64 = 8 << 20;
/// The most layers an image may have; Docker's own bound.
pub const LAYERS_MAX: usize = 127;
/// The largest compressed layer.
pub const LAYER_MAX: u64 = 64 << 30;
/// The most manifests an index may list.
const INDEX_MAX: usize = 4096;

/// The media types we accept, those with platforms first.
pub const MANIFEST_KINDS: &str = "application/vnd.oci.image.index.v1+json, \
     application/vnd.docker.distribution.manifest.list.v2+json, \
     application/vnd.oci.image.manifest.v1+json, \
     application/vnd.docker.distribution.manifest.v2+json";

/// A pointer to content.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Descriptor {
    #[serde(default)]
    pub media_type: String,
    pub digest: Digest,
    pub size: u64,
    #[serde(default)]
    pub platform: Option<Platform>,
    #[serde(default)]
    pub annotations: Option<BTreeMap<String, String>>,
}

impl Descriptor {
    /// Tells whether a registry may lack this content. We never use the other addresses it gives.
    pub fn is_foreign(&self) -> bool {
        self.media_type.contains("nondistributable") || self.media_type.contains(".foreign.")
    }
}

/// One image for one platform.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Manifest {
    pub config: Descriptor,
    pub layers: Vec<Descriptor>,
}

/// What a reference may lead to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Document {
    Manifest(Manifest),
    /// One image for several platforms.
    Index(Vec<Descriptor>),
}

/// Every field of every kind of document, to find out which kind it is.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Raw {
    schema_version: u32,
    #[serde(default)]
    media_type: Option<String>,
    config: Option<Descriptor>,
    layers: Option<Vec<Descriptor>>,
    manifests: Option<Vec<Descriptor>>,
}

impl Document {
    /// Reads a manifest or an index. `announced` is the media type the registry sent, if any.
    pub fn parse(bytes: &[u8], announced: Option<&str>) -> Result<Self> {
        let unread = |error| invalid("is not a manifest").caused_by(error);
        let raw: Raw = serde_json::from_slice(bytes).map_err(unread)?;
        let fields: Fields = serde_json::from_slice(bytes).map_err(unread)?;
        expect_plain(&fields, &DOCUMENT)?;
        let descriptors = ["config", "layers", "manifests"].into_iter().filter_map(|name| fields.get(name));
        descriptors.flat_map(objects).try_for_each(|descriptor| expect_plain(descriptor, &DESCRIPTOR))?;
        if raw.schema_version != 2 {
            return Err(unsupported("is not a schema 2 manifest; registries dropped other schemas in 2017"));
        }
        if let (Some(said), Some(announced)) = (&raw.media_type, announced)
            && is_index(said) != is_index(announced)
        {
            return Err(invalid("is announced as something else than it says it is"));
        }
        let indexed = raw.media_type.as_deref().or(announced).map(is_index);
        match (raw.config, raw.layers, raw.manifests) {
            (Some(config), Some(layers), None) if indexed != Some(true) => {
                Manifest { config, layers }.checked().map(Document::Manifest)
            }
            (None, None, Some(manifests)) if indexed != Some(false) && manifests.len() <= INDEX_MAX => {
                Ok(Document::Index(manifests))
            }
            (None, None, Some(manifests)) if manifests.len() > INDEX_MAX => {
                Err(too_large("has too many platforms"))
            }
            // We and a program that checked it before could take it for different things.
            (_, _, Some(_)) => Err(invalid("is a manifest and an index at once")),
            _ => Err(invalid("is neither a manifest nor an index")),
        }
    }
}

type Fields = serde_json::Map<String, serde_json::Value>;

/// The fields we read, of a manifest or an index and of a descriptor.
const DOCUMENT: [&str; 5] = ["schemaVersion", "mediaType", "config", "layers", "manifests"];
const DESCRIPTOR: [&str; 5] = ["mediaType", "digest", "size", "platform", "annotations"];

/// Returns the object, or the objects in the list.
fn objects(value: &serde_json::Value) -> impl Iterator<Item = &Fields> {
    let listed = value.as_array().into_iter().flatten();
    listed.chain(std::iter::once(value)).filter_map(serde_json::Value::as_object)
}

/// Refuses a field that other programs take for one of ours: Go's tools ignore case, and take two look-alike
/// letters (U+017F and U+212A) for `s` and `k`.
fn expect_plain(fields: &Fields, ours: &[&str]) -> Result<()> {
    let folded = |name: &str| name.replace('\u{17f}', "s").replace('\u{212a}', "k").to_lowercase();
    let is_odd = |name: &&String| {
        ours.iter().any(|field| folded(field) == folded(name)) && !ours.contains(&name.as_str())
    };
    match fields.keys().find(is_odd) {
        None => Ok(()),
        Some(name) => Err(invalid(&format!("has a field `{name}`, which some read as another"))),
    }
}

fn is_index(media_type: &str) -> bool {
    media_type.contains("image.index") || media_type.contains("manifest.list")
}

impl Manifest {
    fn checked(self) -> Result<Self> {
        if self.layers.len() > LAYERS_MAX {
            return Err(too_large(&format!("has {} layers, more than {LAYERS_MAX}", self.layers.len())));
        }
        if self.config.size > CONFIG_MAX || self.layers.iter().any(|layer| layer.size > LAYER_MAX) {
            return Err(too_large("has parts that are larger than the limits"));
        }
        if !matches!(
            self.config.media_type.as_str(),
            "application/vnd.oci.image.config.v1+json" | "application/vnd.docker.container.image.v1+json"
        ) {
            return Err(unsupported("is not an image but something else that is kept in registries")
                .detail("media_type", self.config.media_type.clone()));
        }
        match self.layers.iter().find(|layer| !is_layer(&layer.media_type)) {
            Some(layer) => Err(unsupported("has a layer of a kind we do not read")
                .detail("media_type", layer.media_type.clone())),
            None => Ok(self),
        }
    }
}

fn is_layer(media_type: &str) -> bool {
    let oci = media_type.strip_prefix("application/vnd.oci.image.layer.");
    let oci = oci.map(|rest| rest.strip_prefix("nondistributable.").unwrap_or(rest));
    let docker = media_type.strip_prefix("application/vnd.docker.image.rootfs.");
    matches!(oci, Some("v1.tar" | "v1.tar+gzip" | "v1.tar+zstd"))
        || matches!(docker, Some("diff.tar" | "diff.tar.gzip" | "diff.tar.zstd" | "foreign.diff.tar.gzip"))
}

/// The part of an image's configuration that we use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Configuration {
    pub platform: Platform,
    pub diff_ids: Vec<Digest>,
    pub workdir: Option<String>,
    pub user: Option<String>,
    pub entrypoint: Vec<String>,
    pub cmd: Vec<String>,
    pub env: Vec<(String, String)>,
}

#[derive(Deserialize)]
struct RawConfiguration {
    #[serde(flatten)]
    platform: Platform,
    #[serde(default)]
    config: Option<RawSettings>,
    rootfs: RawRootfs,
}

#[derive(Deserialize)]
struct RawRootfs {
    diff_ids: Option<Vec<Digest>>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "PascalCase", default)]
struct RawSettings {
    user: Option<String>,
    working_dir: Option<String>,
    entrypoint: Option<Vec<String>>,
    cmd: Option<Vec<String>>,
    env: Option<Vec<String>>,
}

impl Configuration {
    pub fn parse(bytes: &[u8]) -> Result<Self> {
        let raw: RawConfiguration = serde_json::from_slice(bytes)
            .map_err(|error| invalid("has a configuration that cannot be read").caused_by(error))?;
        let diff_ids = raw.rootfs.diff_ids.unwrap_or_default();
        if diff_ids.len() > LAYERS_MAX {
            return Err(too_large(&format!("has {} layers, more than {LAYERS_MAX}", diff_ids.len())));
        }
        let settings = raw.config.unwrap_or_default();
        let some = |text: Option<String>| text.filter(|text| !text.is_empty() && !text.contains('\0'));
        let words = |words: Option<Vec<String>>| words.unwrap_or_default();
        Ok(Self {
            platform: raw.platform,
            diff_ids,
            workdir: some(settings.working_dir),
            user: some(settings.user),
            entrypoint: words(settings.entrypoint),
            cmd: words(settings.cmd),
            env: words(settings.env).iter().filter_map(|line| variable(line)).collect(),
        })
    }

    /// Refuses an image whose parts do not belong together, or that this machine cannot run.
    pub fn check(&self, layers: usize) -> Result<()> {
        if layers != self.diff_ids.len() {
            return Err(invalid("has other layers than its configuration says"));
        }
        let here = Platform::here();
        match here.runs(&self.platform) {
            true => Ok(()),
            false => Err(unsupported(&format!("is for {}, and this machine is {here}", self.platform))),
        }
    }
}

/// Reads `NAME=value`; leaves out what cannot be a variable.
fn variable(line: &str) -> Option<(String, String)> {
    let (name, value) = line.split_once('=')?;
    (!name.is_empty() && !line.contains('\0')).then(|| (name.to_owned(), value.to_owned()))
}

/// Returns the manifest for this machine.
pub fn choose(offered: &[Descriptor]) -> Result<&Descriptor> {
    let here = Platform::here();
    let with_platform = offered.iter().filter_map(|one| Some((one.platform.as_ref()?, one)));
    // Attestations are listed as images for the platform `unknown`.
    let real = with_platform.filter(|(platform, _)| platform.os != "unknown");
    let chosen = here.choose(real.clone());
    chosen.ok_or_else(|| {
        let names: Vec<String> = real.map(|(platform, _)| platform.to_string()).collect();
        Error::new(Kind::Unsupported, format!("is not there for this machine's platform, {here}"))
            .hint(match names.is_empty() {
                true => "it names no platform at all".to_owned(),
                false => format!("it is there for {}", names.join(", ")),
            })
            .detail("platforms", names)
    })
}

/// Says what is wrong with the image. The caller, which knows its name, puts that in front.
fn invalid(what: &str) -> Error {
    Error::new(Kind::Invalid, what)
}

fn unsupported(what: &str) -> Error {
    Error::new(Kind::Unsupported, what)
}

fn too_large(what: &str) -> Error {
    Error::new(Kind::LimitExceeded, what)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIGEST: &str = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

    fn manifest(layers: usize) -> serde_json::Value {
        let layer = serde_json::json!({
            "mediaType": "application/vnd.oci.image.layer.v1.tar+gzip", "digest": DIGEST, "size": 1});
        let config = serde_json::json!({
            "mediaType": "application/vnd.oci.image.config.v1+json", "digest": DIGEST, "size": 1});
        serde_json::json!({"schemaVersion": 2, "config": config, "layers": vec![layer; layers]})
    }

    fn parse(value: &serde_json::Value) -> Result<Document> {
        Document::parse(value.to_string().as_bytes(), None)
    }

    #[test]
    fn a_document_that_is_two_things_at_once_is_refused() {
        assert!(parse(&manifest(1)).is_ok());
        for more in ["manifests", "Manifests", "MANIFESTS", "manife\u{17f}ts"] {
            let mut both = manifest(1);
            both[more] = serde_json::json!([]);
            assert_eq!(parse(&both).map_err(|error| error.kind), Err(Kind::Invalid), "{more}");
        }
        for more in ["layers", "config", "Layers", "Config", "MediaType"] {
            let mut both = serde_json::json!({"schemaVersion": 2, "manifests": []});
            assert!(parse(&both).is_ok());
            both[more] = manifest(1)[more.to_lowercase()].clone();
            assert_eq!(parse(&both).map_err(|error| error.kind), Err(Kind::Invalid), "{more}");
        }
        let index = "application/vnd.oci.image.index.v1+json";
        assert!(Document::parse(manifest(1).to_string().as_bytes(), Some(index)).is_err());
    }

    #[test]
    fn a_descriptor_that_others_read_otherwise_is_refused() {
        for (more, plain) in [("Digest", false), ("digesT", false), ("MEDIATYPE", false), ("urls", true)] {
            let mut documents = [manifest(2), manifest(2), serde_json::json!({"schemaVersion": 2})];
            documents[2]["manifests"] = manifest(2)["layers"].clone();
            documents[0]["config"][more] = DIGEST.into();
            documents[1]["layers"][1][more] = DIGEST.into();
            documents[2]["manifests"][1][more] = DIGEST.into();
            for document in documents {
                assert_eq!(parse(&document).is_ok(), plain, "{document}");
            }
        }
    }

    #[test]
    fn more_layers_than_docker_makes_are_refused() {
        assert!(parse(&manifest(LAYERS_MAX)).is_ok());
        assert_eq!(parse(&manifest(LAYERS_MAX + 1)).map_err(|error| error.kind), Err(Kind::LimitExceeded));
    }

    #[test]
    fn what_is_no_image_is_not_taken_for_one() {
        let mut chart = manifest(1);
        chart["config"]["mediaType"] = "application/vnd.cncf.helm.config.v1+json".into();

        assert_eq!(parse(&chart).map_err(|error| error.kind), Err(Kind::Unsupported));
    }

    #[test]
    fn nulls_mean_nothing_was_set() {
        let text = format!(
            r#"{{"os":"linux","architecture":"amd64","rootfs":{{"diff_ids":["{DIGEST}"]}},
                "config":{{"Env":["A=b=c","broken","=x"],"Cmd":null,"Entrypoint":null,"WorkingDir":"","Labels":null}}}}"#
        );

        let configuration = Configuration::parse(text.as_bytes()).expect("is a configuration");

        assert_eq!(configuration.env, [("A".to_owned(), "b=c".to_owned())]);
        assert_eq!((configuration.workdir, configuration.cmd), (None, Vec::new()));
    }
}
