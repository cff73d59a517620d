//! Takes the files of a sandbox, to make forks from.
//!
//! They are on its disk, in generations of which only the last is written to. If no command runs, we put a new
//! generation on top (`restack.rs`); the disk with the earlier ones is then the base of every sandbox that starts
//! from it, under another name in the directory of each. It is removed with the last of these names, so we need no
//! counter. If a command runs, everything is frozen while the disk is copied.

mod restack;

use std::fs::File;
use std::path::PathBuf;

use coracle_core::backend::{Created, Order};
use coracle_core::forking::{ForkSource, HeldSandbox, Method};
use coracle_core::{Cancel, Error, Kind, Result, SandboxId};
use coracle_sys::rustix;

use super::Native;
use super::create::{self, Failure, at};
use super::disk;
use super::home::BASES_MAX;
use super::storage::Storage;
use crate::weak;

/// No guest makes more generations on one disk.
const GENERATIONS_MAX: u32 = 32;

/// The files of a sandbox at one moment.
#[derive(Debug)]
pub struct Taken {
    /// The topmost first.
    pub bases: Vec<Base>,
    /// The image below them, and what its name led to.
    pub origin: String,
    pub digest: Option<String>,
}

/// A disk with files that no process writes to any more.
#[derive(Debug)]
pub struct Base {
    pub file: File,
    /// The last generation to use; later ones belong to other sandboxes.
    pub generation: u32,
    /// The device it is mounted from; empty if it was just copied.
    pub device: PathBuf,
}

struct NativeForkSource<'a> {
    native: &'a Native,
    taken: Taken,
    method: Method,
}

impl ForkSource for NativeForkSource<'_> {
    fn method(&self) -> Method {
        self.method
    }

    fn create(&self, order: &Order<'_>) -> Result<Created> {
        create::create(self.native, order, Some(&self.taken))
    }
}

/// Takes the files of a sandbox that is held.
pub fn take_files<'a>(native: &'a Native, held: &HeldSandbox<'_>) -> Result<Box<dyn ForkSource + 'a>> {
    let disks = disks(native, held)?;
    if disks.len() > BASES_MAX {
        return Err(too_deep(held.sandbox));
    }
    // The caller's mounts are not part of the root that would be rebuilt.
    let method = match held.idle && held.spec.mounts.is_empty() && !weak::off(weak::Wall::Nesting) {
        true => Method::Layered,
        false => Method::Copied,
    };
    let taken = take(native, held, method, &disks);
    // If the call was cancelled or the sandbox went on meanwhile, report that: it explains any other failure.
    let (taken, method) = taken.map_err(|failure| match held.cancel.check().and(held.grip.confirm()) {
        Ok(()) => refuse(held.sandbox, failure),
        Err(error) => error,
    })?;
    if method == Method::Copied {
        held.grip.confirm()?;
    }
    Ok(Box::new(NativeForkSource { native, taken, method }))
}

/// Returns the disks with its files, its own first.
pub fn disks(native: &Native, held: &HeldSandbox<'_>) -> Result<Vec<(PathBuf, PathBuf)>> {
    let disks = native.home.disks(held.sandbox);
    match matches!(Storage::choose(held.spec, native.privilege), Storage::Disk(_)) && !disks.is_empty() {
        true => Ok(disks),
        false if !native.privilege.is_root() => Err(needs_root(held.sandbox)),
        false => Err(no_disk(held.sandbox)),
    }
}

/// Takes the files by the method, or copies them if a disk has no room for another generation.
fn take(
    native: &Native,
    held: &HeldSandbox<'_>,
    method: Method,
    disks: &[(PathBuf, PathBuf)],
) -> Result<(Taken, Method), Failure> {
    let uses = native.home.uses_of(held.sandbox).map_err(at("see what it uses"))?.unwrap_or_default();
    let origin = uses.origin.clone().unwrap_or_else(|| held.spec.image.clone());
    let (own, below) = disks.split_first().ok_or_else(|| at("find the disk")(no_entry()))?;
    let frozen = match method {
        Method::Layered => restack::restack(native, held, &uses, &origin)?,
        Method::Copied => None,
    };
    let (top, method) = match frozen {
        Some(generation) => {
            (native.config.crash)("native.fork.layered");
            (base(own, generation.min(GENERATIONS_MAX))?, Method::Layered)
        }
        None => {
            let copied = copy(native, own, held.cancel).map_err(at("copy the disk"))?;
            (native.config.crash)("native.fork.copied");
            (copied, Method::Copied)
        }
    };
    let mut bases = vec![top];
    for (disk, generation) in below.iter().zip(uses.bases) {
        bases.push(base(disk, generation)?);
    }
    Ok((Taken { bases, origin, digest: held.image.digest.clone() }, method))
}

fn base((path, device): &(PathBuf, PathBuf), generation: u32) -> Result<Base, Failure> {
    let file = File::options().read(true).write(true).open(path).map_err(at("open the disk"))?;
    Ok(Base { file, generation, device: device.clone() })
}

/// Copies a disk while everything on it is frozen, after all data in memory has been written to it.
pub fn copy(native: &Native, (path, device): &(PathBuf, PathBuf), cancel: &Cancel) -> std::io::Result<Base> {
    let mounted = disk::mount_again(path, Some(device), None, coracle_sys::mount::Attributes::empty())?;
    let root = open_root(&mounted)?;
    rustix::fs::syncfs(&root)?;
    let generation = last_generation(&root)?;
    let file = disk::copy(path, native.home.nameless(), cancel)?;
    Ok(Base { file, generation, device: PathBuf::new() })
}

pub fn open_root(mounted: &disk::Mounted) -> std::io::Result<std::os::fd::OwnedFd> {
    use rustix::fs::{Mode, OFlags, openat};
    Ok(openat(&mounted.tree, ".", OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?)
}

/// Returns the highest number of a generation. The guest made the directories, so this follows no link and returns
/// only a number.
fn last_generation(root: &std::os::fd::OwnedFd) -> std::io::Result<u32> {
    let mut generation = 0;
    for entry in rustix::fs::Dir::read_from(root)? {
        let number = entry?.file_name().to_str().ok().and_then(|name| name.parse::<u32>().ok());
        generation = generation.max(number.filter(|number| *number < GENERATIONS_MAX).unwrap_or(0));
    }
    Ok(generation)
}

fn no_entry() -> std::io::Error {
    std::io::ErrorKind::NotFound.into()
}

fn needs_root(sandbox: &SandboxId) -> Error {
    Error::new(Kind::Unsupported, "forks and snapshots need root")
        .hint("run coracle as root, and open the sandbox again there")
        .detail("sandbox_id", sandbox.as_str())
}

fn no_disk(sandbox: &SandboxId) -> Error {
    Error::new(
        Kind::Unsupported,
        format!("could not take the files of sandbox `{sandbox}`: they are not on a disk"),
    )
    .hint("as root, open it with `storage: disk`")
    .detail("sandbox_id", sandbox.as_str())
}

fn too_deep(sandbox: &SandboxId) -> Error {
    let message = format!("sandbox `{sandbox}` is the fork of a fork {BASES_MAX} times over");
    Error::new(Kind::LimitExceeded, message)
        .hint("fork the sandbox it was forked from instead")
        .detail("sandbox_id", sandbox.as_str())
}

pub fn refuse(sandbox: &SandboxId, failure: Failure) -> Error {
    let message = format!("could not take the files of sandbox `{sandbox}`: {}", failure.attempted);
    Error::new(Kind::Internal, message).detail("sandbox_id", sandbox.as_str()).caused_by(failure.cause)
}
