//! Loads the images of an archive.

use std::fs::File;

use coracle_core::Result;
use coracle_core::image::{Phase, Progress, Step, Stored};

use super::layer::{Source, kept};
use super::meter::Meter;
use super::{Store, draft};
use crate::archive::{Archive, Found, Section};
use crate::digest::Digest;
use crate::proportion::Allowance;

/// Loads them one after the other. On error, those before it stay.
pub fn load(store: &Store, file: File, progress: &dyn Progress) -> Result<Vec<Stored>> {
    store.prepare()?;
    let _hold = store.hold()?;
    draft::sweep(&store.layout).map_err(kept("tidy up"))?;
    let archive = Archive::open(file, &|| store.layout.nameless_file())?;
    let mut stored = Vec::new();
    for image in archive.images()? {
        stored.extend(one(store, &archive, image, progress)?);
    }
    Ok(stored)
}

fn one(store: &Store, archive: &Archive, image: Found, progress: &dyn Progress) -> Result<Vec<Stored>> {
    progress.report(&Step::Resolved {
        reference: image.names.first().cloned().unwrap_or_default(),
        digest: image.digest.to_string(),
        layers: image.layers.len(),
    });
    let lengths = image.layers.iter().map(|section| section.length);
    let allowance = Allowance::of(lengths, store.limits);
    for (diff_id, section) in image.configuration.diff_ids.iter().zip(&image.layers) {
        layer(&Bringing { store, archive, allowance: &allowance, progress }, diff_id, *section)
            .map_err(|error| super::pull::about(error, image.names.join("`, `")))?;
    }
    (store.config.crash)("images.load.layers");
    let keep = |name: &String| store.keep(name, image.digest.clone(), image.configuration.clone(), progress);
    image.names.iter().map(keep).collect()
}

/// The image whose layers are being unpacked.
struct Bringing<'a> {
    store: &'a Store,
    archive: &'a Archive,
    allowance: &'a Allowance,
    progress: &'a dyn Progress,
}

fn layer(bringing: &Bringing<'_>, diff_id: &Digest, section: Section) -> Result<()> {
    let Bringing { store, archive, allowance, progress } = *bringing;
    let mut meter = Meter::new(progress, diff_id);
    if store.has_layer(diff_id) {
        meter.tell(Phase::Present, section.length, section.length);
        return Ok(());
    }
    let source = Source { file: archive.file(), offset: section.offset, length: section.length };
    store.unpack_layer(&source, diff_id, allowance, &mut meter, &|| true)?;
    meter.tell(Phase::Done, section.length, section.length);
    Ok(())
}
