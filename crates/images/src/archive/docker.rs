//! Archives as `docker save` wrote them before OCI: a list of images, their configurations, their layers.

use coracle_core::Result;
use serde::Deserialize;

use super::{Archive, Found, Section, invalid};
use crate::digest::Digest;
use crate::manifest::{CONFIG_MAX, Configuration, LAYERS_MAX, MANIFEST_MAX};

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Listed {
    config: String,
    repo_tags: Option<Vec<String>>,
    layers: Vec<String>,
}

/// Returns the images of the list.
pub fn images(archive: &Archive) -> Result<Vec<Found>> {
    let text = archive.document("manifest.json", MANIFEST_MAX)?;
    let listed: Vec<Listed> = serde_json::from_slice(&text)
        .map_err(|error| invalid("its `manifest.json` cannot be read").caused_by(error))?;
    listed.iter().map(|listed| image(archive, listed)).collect()
}

fn image(archive: &Archive, listed: &Listed) -> Result<Found> {
    if listed.layers.len() > LAYERS_MAX {
        return Err(invalid(&format!("an image has more than {LAYERS_MAX} layers")));
    }
    let config = archive.document(&listed.config, CONFIG_MAX)?;
    let configuration = Configuration::parse(&config)?;
    configuration.check(listed.layers.len())?;
    let layers = listed.layers.iter().map(|name| archive.section(name)).collect::<Result<Vec<_>>>()?;
    let digest = digest(&config, &configuration, &layers);
    let tags = listed.repo_tags.iter().flatten();
    let mut names = tags.map(|tag| super::claimed(tag, &digest)).collect::<Result<Vec<_>>>()?;
    if names.is_empty() {
        names.push(super::unnamed(&digest));
    }
    Ok(Found { names, digest, configuration, layers })
}

/// Makes the manifest that these archives lack, always the same for the same image.
fn digest(config: &[u8], configuration: &Configuration, layers: &[Section]) -> Digest {
    let layers: Vec<_> = configuration
        .diff_ids
        .iter()
        .zip(layers)
        .map(|(diff_id, section)| {
            serde_json::json!({
                "mediaType": "application/vnd.oci.image.layer.v1.tar", "digest": diff_id.as_str(), "size": section.length,
            })
        })
        .collect();
    let manifest = serde_json::json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": {
            "mediaType": "application/vnd.oci.image.config.v1+json",
            "digest": Digest::of(config).as_str(),
            "size": config.len(),
        },
        "layers": layers,
    });
    Digest::of(manifest.to_string().as_bytes())
}
