//! Archives of an OCI layout: an index, and everything else by its digest.

use coracle_core::{Error, Kind, Result};

use super::{Archive, Found, Section, invalid};
use crate::digest::Digest;
use crate::manifest::{CONFIG_MAX, Configuration, Descriptor, Document, MANIFEST_MAX, Manifest, choose};
use crate::platform::Platform;

/// The annotation with the full name of an image, and the one with either the name or only its tag.
const NAME: &str = "io.containerd.image.name";
const NAME_OR_TAG: &str = "org.opencontainers.image.ref.name";

/// Returns the images of the index that are for this machine.
pub fn images(archive: &Archive) -> Result<Vec<Found>> {
    let text = archive.document("index.json", MANIFEST_MAX)?;
    let Document::Index(listed) = Document::parse(&text, None)? else {
        return Err(invalid("its `index.json` is not an index"));
    };
    let here = Platform::here();
    let fitting: Vec<&Descriptor> = listed
        .iter()
        .filter(|one| one.platform.as_ref().is_none_or(|platform| here.runs(platform)))
        .collect();
    if fitting.is_empty() {
        choose(&listed)?;
    }
    fitting.into_iter().map(|one| image(archive, one)).collect()
}

fn image(archive: &Archive, listed: &Descriptor) -> Result<Found> {
    let (digest, manifest) = manifest(archive, listed)?;
    let configuration = Configuration::parse(&blob(archive, &manifest.config, CONFIG_MAX)?)?;
    configuration.check(manifest.layers.len())?;
    let layers = manifest.layers.iter().map(|layer| layer_section(archive, layer)).collect::<Result<_>>()?;
    let name = name(listed)?.unwrap_or_else(|| super::unnamed(&digest));
    Ok(Found { names: vec![name], digest, configuration, layers })
}

/// Returns the manifest that an entry of the index leads to, through at most one more index.
fn manifest(archive: &Archive, listed: &Descriptor) -> Result<(Digest, Manifest)> {
    let parse = |one: &Descriptor| {
        let announced = Some(one.media_type.as_str()).filter(|said| !said.is_empty());
        Document::parse(&blob(archive, one, MANIFEST_MAX)?, announced)
    };
    match parse(listed)? {
        Document::Manifest(manifest) => Ok((listed.digest.clone(), manifest)),
        Document::Index(offered) => {
            let chosen = choose(&offered)?;
            match parse(chosen)? {
                Document::Manifest(manifest) => Ok((chosen.digest.clone(), manifest)),
                Document::Index(_) => Err(invalid("an index leads to another index")),
            }
        }
    }
}

fn name(listed: &Descriptor) -> Result<Option<String>> {
    let annotation = |key: &str| listed.annotations.as_ref()?.get(key).map(String::as_str);
    let whole = annotation(NAME).or_else(|| annotation(NAME_OR_TAG).filter(|text| text.contains(['/', ':'])));
    whole.map(|text| super::claimed(text, &listed.digest)).transpose()
}

fn section(archive: &Archive, one: &Descriptor) -> Result<Section> {
    let section = archive.section(&format!("blobs/sha256/{}", one.digest.hex()))?;
    match section.length == one.size {
        true => Ok(section),
        false => Err(invalid(&format!("`{}` has another size than it should", one.digest))),
    }
}

fn layer_section(archive: &Archive, layer: &Descriptor) -> Result<Section> {
    let section = section(archive, layer).map_err(|error| match layer.is_foreign() {
        true => Error::new(
            Kind::Unsupported,
            "could not load the archive: it lacks a layer that may not be given away",
        ),
        false => error,
    })?;
    let found = Digest::of_stream(&mut archive.reader(section))
        .map_err(|error| invalid("it cannot be read").caused_by(error))?;
    checked(&layer.digest, &found).map(|()| section)
}

fn blob(archive: &Archive, one: &Descriptor, limit: u64) -> Result<Vec<u8>> {
    section(archive, one)?;
    let bytes = archive.document(&format!("blobs/sha256/{}", one.digest.hex()), limit)?;
    checked(&one.digest, &Digest::of(&bytes)).map(|()| bytes)
}

fn checked(expected: &Digest, found: &Digest) -> Result<()> {
    match expected == found {
        true => Ok(()),
        false => Err(invalid(&format!("`{expected}` has another digest than its name says"))),
    }
}
