//! Removes images by name, and what nothing uses any more.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

use coracle_core::image::{Reference, Removed};
use coracle_core::{Error, Kind, Result};

use super::layer::kept;
use super::layout::{entries, remove_file};
use super::record::{self, Named, Record};
use super::{Store, draft, lock};
use crate::digest::Digest;

/// How long a removal waits for processes that pull or use images now. After that, layers stay until the next time.
const PATIENCE: Duration = Duration::from_secs(2);
/// The shortest prefix that counts as a digest.
const SHORTEST: usize = 12;

type Used<'a> = &'a dyn Fn() -> Result<BTreeSet<String>>;

/// Removes the names, then what only they led to.
pub fn remove(store: &Store, name: &str, used: Used<'_>) -> Result<Removed> {
    let names = store.names()?;
    let forgotten: Vec<&Named> = names.iter().filter(|named| is_meant(named, name)).collect();
    if forgotten.is_empty() {
        return Err(Error::new(Kind::ImageNotFound, format!("no image `{}` is here", name.escape_debug()))
            .detail("image", name)
            .hint("`coracle image list` shows those that are"));
    }
    for named in &forgotten {
        remove_file(&store.layout.reference(&named.reference)).map_err(kept("forget a name"))?;
    }
    (store.config.crash)("images.remove.forgotten");
    let references = forgotten.iter().map(|named| named.reference.clone()).collect();
    Ok(Removed { references, ..sweep(store, used, Tidy::Layers)? })
}

/// Removes layers that no image uses, and incomplete ones.
pub fn collect(store: &Store, used: Used<'_>) -> Result<Removed> {
    sweep(store, used, Tidy::Everything)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Tidy {
    Layers,
    Everything,
}

fn is_meant(named: &Named, name: &str) -> bool {
    let digits = name.strip_prefix("sha256:").unwrap_or(name);
    let hexadecimal = digits.len() >= SHORTEST && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    let by_digest = hexadecimal && named.digest.hex().starts_with(digits);
    by_digest || name.parse::<Reference>().is_ok_and(|reference| reference.to_string() == named.reference)
}

fn sweep(store: &Store, used: Used<'_>, tidy: Tidy) -> Result<Removed> {
    if !store.layout.locks().exists() {
        return Ok(Removed::default());
    }
    let Some(_alone) =
        lock::exclusive_within(&store.layout.lock(super::HOLD), PATIENCE).map_err(kept("lock layers"))?
    else {
        return Ok(Removed::default());
    };
    // Ask only now: no process can begin to use an image any more.
    let used = used()?;
    let names = store.names()?;
    let is_used =
        |digest: &Digest| used.contains(digest.as_str()) || names.iter().any(|named| named.digest == *digest);
    let mut needed = BTreeSet::new();
    for path in entries(&store.layout.records()).map_err(kept("list images"))? {
        match record::read::<Record>(&path).map_err(kept("read an image"))? {
            Some(record) if is_used(&record.digest) => needed.extend(record.layers),
            _ => remove_file(&path).map_err(kept("forget an image"))?,
        }
    }
    (store.config.crash)("images.remove.records");
    let removed = remove_layers(store, &needed)?;
    if tidy == Tidy::Everything {
        leftovers(store).map_err(kept("tidy up"))?;
    }
    Ok(removed)
}

fn remove_layers(store: &Store, needed: &BTreeSet<Digest>) -> Result<Removed> {
    let mut removed = Removed::default();
    for path in entries(&store.layout.layers()).map_err(kept("list layers"))? {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let diff_id = Digest::parse(&format!("sha256:{name}"));
        if diff_id.as_ref().is_some_and(|diff_id| needed.contains(diff_id)) {
            continue;
        }
        let about =
            diff_id.map(|diff_id| draft::about(&store.layout, &diff_id)).transpose().unwrap_or_default();
        discard(store, &path).map_err(kept("remove a layer"))?;
        removed.layers += 1;
        removed.bytes += about.unwrap_or_default().bytes;
    }
    Ok(removed)
}

/// Moves the layer out of its place first, in one step: half a layer must not stay there if we die.
fn discard(store: &Store, path: &Path) -> io::Result<()> {
    let draft = store.layout.new_draft();
    draft::remove(&draft)?;
    fs::rename(path, &draft)?;
    (store.config.crash)("images.remove.layer");
    draft::remove(&draft)
}

/// Removes what dead processes left. No process pulls meanwhile, so all of it is theirs.
fn leftovers(store: &Store) -> io::Result<()> {
    for path in entries(&store.layout.drafts())?.into_iter().chain(entries(&store.layout.partials())?) {
        draft::remove(&path)?;
    }
    for path in entries(&store.layout.locks())? {
        // A process that waits for this lock sees that the file is gone and makes another.
        if path.file_name() != Some(super::HOLD.as_ref())
            && let Some(_lock) = lock::try_existing(&path)?
        {
            remove_file(&path)?;
        }
    }
    Ok(())
}
