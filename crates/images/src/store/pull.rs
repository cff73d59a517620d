//! Pulls an image from its registry.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use coracle_core::image::{Phase, Progress, Reference, Step, Stored};
use coracle_core::{Cancel, Error, Kind, Result};

use super::download::{Brought, Download};
use super::layer::{Source, kept};
use super::meter::Meter;
use super::partial::{self, Partial};
use super::{Store, draft, lock};
use crate::digest::Digest;
use crate::manifest::{Configuration, Descriptor, Document, Manifest, choose};
use crate::proportion::Allowance;
use crate::registry::{Client, Fetched};

/// How many layers are pulled at once. More make no connection faster.
const WORKERS: usize = 4;

/// An image whose name was resolved: from here on everything goes by digest.
struct Resolved {
    digest: Digest,
    manifest: Manifest,
    configuration: Configuration,
}

/// Pulls the image. On error no name leads to anything new; parts of layers stay, to continue from.
pub fn pull(store: &Store, reference: &Reference, progress: &dyn Progress) -> Result<Stored> {
    let cancel = progress.cancel();
    cancel.check()?;
    bring_image(store, reference, progress, &cancel).or_else(|error| {
        // Report only the cancellation, not the error it caused.
        cancel.check()?;
        Err(error)
    })
}

fn bring_image(
    store: &Store,
    reference: &Reference,
    progress: &dyn Progress,
    cancel: &Cancel,
) -> Result<Stored> {
    store.prepare()?;
    // Keep existing layers until the name leads to them.
    let _hold = store.hold()?;
    draft::sweep(&store.layout).map_err(kept("tidy up"))?;
    let client = Client::new(reference, &store.config.registries, cancel)?;
    let resolved = resolve(&client, reference)?;
    progress.report(&Step::Resolved {
        reference: reference.to_string(),
        digest: resolved.digest.to_string(),
        layers: resolved.manifest.layers.len(),
    });
    (store.config.crash)("images.pull.resolved");
    let layers = resolved.manifest.layers.iter().zip(&resolved.configuration.diff_ids);
    let lengths = resolved.manifest.layers.iter().map(|layer| layer.size);
    let allowance = Allowance::of(lengths, store.limits);
    Bringing { store, client: &client, allowance, progress, cancel, failed: AtomicBool::new(false) }
        .all(layers.collect())
        .map_err(|error| about(error, reference))?;
    (store.config.crash)("images.pull.layers");
    store.keep(&reference.to_string(), resolved.digest, resolved.configuration, progress)
}

/// Resolves a reference, for this machine's platform.
fn resolve(client: &Client<'_>, reference: &Reference) -> Result<Resolved> {
    let which = reference.digest().or(reference.tag()).unwrap_or("latest");
    let fetched = client.manifest(which)?;
    let named = |error| about(error, reference);
    let (fetched, manifest) = match parse(&fetched).map_err(named)? {
        Document::Manifest(manifest) => (fetched, manifest),
        Document::Index(offered) => {
            let chosen = choose(&offered).map_err(named)?;
            let fetched = client.manifest(chosen.digest.as_str())?;
            if fetched.bytes.len() as u64 != chosen.size {
                return Err(client.invalid("its manifest has another size than it should"));
            }
            match parse(&fetched).map_err(named)? {
                Document::Manifest(manifest) => (fetched, manifest),
                Document::Index(_) => return Err(client.invalid("an index leads to another index")),
            }
        }
    };
    let bytes = client.small_blob(&manifest.config.digest, manifest.config.size)?;
    let configuration = Configuration::parse(&bytes).map_err(named)?;
    configuration.check(manifest.layers.len()).map_err(named)?;
    Ok(Resolved { digest: fetched.digest, manifest, configuration })
}

fn parse(fetched: &Fetched) -> Result<Document> {
    Document::parse(&fetched.bytes, fetched.media_type.as_deref())
}

/// Puts the image's name in front of an error about it.
pub fn about(mut error: Error, image: impl std::fmt::Display) -> Error {
    error.message = format!("could not take image `{image}`: {}", error.message);
    error
}

/// Several layers that are pulled at once.
struct Bringing<'a> {
    store: &'a Store,
    client: &'a Client<'a>,
    allowance: Allowance,
    progress: &'a dyn Progress,
    cancel: &'a Cancel,
    failed: AtomicBool,
}

impl Bringing<'_> {
    fn all(&self, layers: Vec<(&Descriptor, &Digest)>) -> Result<()> {
        let workers = layers.len().min(WORKERS);
        let queue = Mutex::new(layers.into_iter());
        let next = || queue.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).next();
        let work = || {
            while let Some((blob, diff_id)) = next().filter(|_| self.is_wanted()) {
                self.one(blob, diff_id).inspect_err(|_| self.failed.store(true, Ordering::Relaxed))?;
            }
            Ok(())
        };
        let results: Vec<Result<()>> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
            threads
                .into_iter()
                .map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
                .collect()
        });
        // Report first an error that is not the mere stop after another layer failed.
        let mut errors: Vec<Error> = results.into_iter().filter_map(Result::err).collect();
        errors.sort_by_key(|error| error.kind == Kind::Aborted);
        errors.into_iter().next().map_or(Ok(()), Err)
    }

    fn is_wanted(&self) -> bool {
        !self.failed.load(Ordering::Relaxed) && !self.cancel.is_cancelled()
    }

    fn one(&self, blob: &Descriptor, diff_id: &Digest) -> Result<()> {
        let mut meter = Meter::new(self.progress, &blob.digest);
        if self.store.has_layer(diff_id) {
            // The process that unpacked it may have died before it removed the blob.
            partial::sweep(&self.store.layout, &blob.digest).map_err(kept("remove a blob"))?;
            meter.tell(Phase::Present, blob.size, blob.size);
            return Ok(());
        }
        // Only the attack suite's weakened twin takes turns. Otherwise no puller waits for another's registry.
        let turn = self.store.layout.lock(blob.digest.hex());
        let _turn = self.store.config.in_turn.then(|| lock::exclusive(&turn));
        self.bring(blob, diff_id, &mut meter)?;
        meter.tell(Phase::Done, blob.size, blob.size);
        Ok(())
    }

    /// Pulls a layer. Other processes may pull the same; the first to finish makes the others stop.
    fn bring(&self, blob: &Descriptor, diff_id: &Digest, meter: &mut Meter<'_>) -> Result<()> {
        let mut partial = Partial::claim(&self.store.layout, blob).map_err(kept("make room for a blob"))?;
        let wanted = || self.is_wanted();
        let download = Download {
            client: self.client,
            blob,
            deadline: self.store.config.registries.pace.deadline(blob.size),
            wanted: &wanted,
            present: &|| self.store.has_layer(diff_id),
        };
        let brought = match download.run(&mut partial, meter) {
            Ok(brought) => brought,
            Err(error) => {
                if partial.length() == 0 {
                    partial.remove().map_err(kept("remove a blob"))?;
                }
                return Err(withheld(blob, error));
            }
        };
        (self.store.config.crash)("images.pull.downloaded");
        let unpacked = match brought {
            Brought::Whole => {
                let source = Source { file: partial.file(), offset: 0, length: blob.size };
                self.store.unpack_layer(&source, diff_id, &self.allowance, meter, &wanted)
            }
            Brought::AlreadyPresent => Ok(()),
        };
        (self.store.config.crash)("images.pull.unpacked");
        match unpacked {
            // Not the blob's fault: keep it, so that it need not be downloaded again.
            Err(error) if matches!(error.kind, Kind::Internal | Kind::Timeout | Kind::Aborted) => Err(error),
            unpacked => {
                partial.remove().map_err(kept("remove a blob"))?;
                unpacked
            }
        }
    }
}

/// Explains the error for a layer that registries may not distribute.
fn withheld(blob: &Descriptor, error: Error) -> Error {
    match blob.is_foreign() && error.kind == Kind::ImageNotFound {
        true => Error::new(Kind::Unsupported, "has a layer that its registry may not give away")
            .hint("coracle fetches layers from the registry alone, not from addresses an image names: anyone could have written those"),
        false => error,
    }
}
