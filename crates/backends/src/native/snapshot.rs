//! Images made from sandboxes: copies of the disks, in a directory of the home, with a record of what is below
//! them.
//!
//! A sandbox opened from one links the disks into its own directory, so the image can be removed while it is in
//! use.

use std::ffi::CString;
use std::fs::{self, File};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use coracle_core::forking::HeldSandbox;
use coracle_core::image::{Config, Removed, Stored};
use coracle_core::{Error, ImageId, Kind, Result, TenantId, Timestamp};
use coracle_sys::rustix::fs::{AtFlags, CWD, FlockOperation, flock, linkat};
use coracle_sys::tree;
use serde::{Deserialize, Serialize};

use super::Native;
use super::create::{Failure, at};
use super::fork_source::{self, Base, Taken};
use super::privilege::Privilege;
use crate::place;

const ABOUT: &str = "about";
/// The prefix of a directory that is being written.
const DRAFT: &str = "draft-";

/// The record of one image.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct About {
    /// The image below.
    pub origin: String,
    pub config: Config,
    /// For each disk, the topmost first, the last generation to use.
    pub generations: Vec<u32>,
    pub created_at: Timestamp,
    /// The tenant of the sandbox it was made from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<TenantId>,
}

/// One complete image.
#[derive(Debug)]
pub struct Kept {
    pub image: ImageId,
    pub about: About,
    directory: PathBuf,
}

impl Kept {
    /// Returns its files, to make a sandbox from.
    pub fn open(&self, privilege: Privilege) -> Result<Taken> {
        if !privilege.is_root() {
            return Err(Error::new(
                Kind::Unsupported,
                format!("image `{}` is on disks only root may mount", self.image),
            ));
        }
        let failed = |error| Error::internal(format!("could not open image `{}`", self.image), error);
        let open = |(index, generation): (usize, &u32)| {
            let file = File::open(self.directory.join(disk(index))).map_err(failed)?;
            Ok(Base { file, generation: *generation, device: PathBuf::new() })
        };
        let bases = self.about.generations.iter().enumerate().map(open).collect::<Result<_>>()?;
        Ok(Taken { bases, origin: self.about.origin.clone(), digest: self.about.config.digest.clone() })
    }

    /// Describes it in the form common to all images.
    pub fn stored(&self) -> Stored {
        let disks = (0..self.about.generations.len()).map(|index| self.directory.join(disk(index)));
        Stored {
            reference: self.image.to_string(),
            digest: self.image.to_string(),
            platform: format!("linux/{}", std::env::consts::ARCH),
            size_bytes: disks
                .filter_map(|disk| fs::metadata(disk).ok())
                .map(|found| found.blocks() * 512)
                .sum(),
            layers: self.about.generations.len() as u64,
            pulled_at: self.about.created_at,
            tenant: self.about.tenant.clone(),
        }
    }
}

/// Copies the disks of a sandbox that is held, and syncs everything to the machine's disk before the image gets its
/// name.
pub fn keep(native: &Native, held: &HeldSandbox<'_>, image: &ImageId) -> Result<Stored> {
    let disks = fork_source::disks(native, held)?;
    let refused = |failure| fork_source::refuse(held.sandbox, failure);
    let draft = draft(native, held, image, &disks).map_err(refused);
    // If the sandbox went on during the copy, the files are not from one moment.
    let whole = held.cancel.check().and(draft).and_then(|draft| held.grip.confirm().map(|()| draft));
    let kept = whole.and_then(|draft| publish(native, image, draft).map_err(refused));
    if kept.is_err() {
        // What cannot be removed now is cleaned up later.
        let _ = discard(native, &format!("{DRAFT}{image}"));
    }
    Ok(kept?.stored())
}

/// A complete image without its name.
struct Draft {
    path: PathBuf,
    /// Locked: the cleanup of leftovers skips it.
    directory: File,
    about: About,
}

fn draft(
    native: &Native,
    held: &HeldSandbox<'_>,
    image: &ImageId,
    disks: &[(PathBuf, PathBuf)],
) -> Result<Draft, Failure> {
    let uses = native.home.uses_of(held.sandbox).map_err(at("see what it uses"))?.unwrap_or_default();
    place::private(&native.home.snapshots).map_err(at("make a directory"))?;
    let draft = native.home.snapshots.join(format!("{DRAFT}{image}"));
    place::private(&draft).map_err(at("make a directory"))?;
    let directory = File::open(&draft).map_err(at("open a directory"))?;
    // A cleanup skips locked directories.
    flock(&directory, FlockOperation::LockExclusive).map_err(Into::into).map_err(at("lock a directory"))?;
    let mut generations = Vec::new();
    for (index, disk) in disks.iter().enumerate() {
        let copied = fork_source::copy(native, disk, held.cancel).map_err(at("copy a disk"))?;
        // The copy of a disk below also has generations that other sandboxes wrote later; they do not belong to
        // this image.
        let meant = index.checked_sub(1).and_then(|below| uses.bases.get(below)).copied();
        generations.push(meant.unwrap_or(copied.generation));
        name(&copied.file, &directory, index).map_err(at("keep a disk"))?;
        (native.config.crash)("native.snapshot.copied");
    }
    let about = About {
        origin: uses.origin.unwrap_or_else(|| held.spec.image.clone()),
        config: held.image.clone(),
        generations,
        created_at: (native.config.clock)(),
        tenant: held.tenant.cloned(),
    };
    Ok(Draft { path: draft, directory, about })
}

fn publish(native: &Native, image: &ImageId, draft: Draft) -> Result<Kept, Failure> {
    let finished = native.home.snapshots.join(image.as_str());
    rename(&draft, &finished).map_err(at("keep the image"))?;
    (native.config.crash)("native.snapshot.kept");
    Ok(Kept { image: image.clone(), about: draft.about, directory: finished })
}

/// Names a copy, once it is on the machine's disk.
fn name(file: &File, directory: &File, index: usize) -> io::Result<()> {
    use std::os::fd::AsRawFd;
    file.sync_all()?;
    let source = format!("/proc/self/fd/{}", file.as_raw_fd());
    Ok(linkat(CWD, source, directory, disk(index), AtFlags::SYMLINK_FOLLOW)?)
}

/// Gives the directory its name: it appears complete or not at all, even after a power cut.
fn rename(draft: &Draft, finished: &Path) -> io::Result<()> {
    let path = draft.path.join(ABOUT);
    fs::write(&path, serde_json::to_vec(&draft.about)?)?;
    File::open(path)?.sync_all()?;
    draft.directory.sync_all()?;
    fs::rename(&draft.path, finished)?;
    File::open(finished.parent().unwrap_or(finished))?.sync_all()
}

/// Finds one image.
pub fn find(native: &Native, image: &ImageId) -> Result<Kept> {
    let directory = native.home.snapshots.join(image.as_str());
    match read(&directory) {
        Ok(about) => Ok(Kept { image: image.clone(), about, directory }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(unknown(image)),
        Err(error) => Err(Error::internal(format!("could not read image `{image}`"), error)),
    }
}

/// Lists all images.
pub fn list(native: &Native) -> Result<Vec<Kept>> {
    let images = names(native)?.into_iter().filter_map(|name| ImageId::among_names(&name));
    let mut kept = Vec::new();
    for image in images {
        match find(native, &image) {
            Err(error) if error.kind == Kind::ImageNotFound => {}
            found => kept.push(found?),
        }
    }
    kept.sort_by(|one: &Kept, other| one.image.cmp(&other.image));
    Ok(kept)
}

/// Removes one image. Sandboxes made from it keep their disks.
pub fn remove(native: &Native, image: &ImageId) -> Result<Removed> {
    let kept = find(native, image)?;
    let bytes = kept.stored().size_bytes;
    discard(native, image.as_str())
        .map_err(|error| Error::internal(format!("could not remove image `{image}`"), error))?;
    Ok(Removed { references: vec![image.to_string()], layers: kept.about.generations.len() as u64, bytes })
}

/// Removes what dead processes left half written.
pub fn tidy(native: &Native) -> Result<()> {
    for name in names(native)?.into_iter().filter(|name| name.starts_with(DRAFT)) {
        let Ok(directory) = File::open(native.home.snapshots.join(&name)) else { continue };
        if flock(&directory, FlockOperation::NonBlockingLockExclusive).is_ok() {
            let failed = |error| Error::internal("could not remove half an image", error);
            discard(native, &name).map_err(failed)?;
        }
    }
    Ok(())
}

fn names(native: &Native) -> Result<Vec<String>> {
    match fs::read_dir(&native.home.snapshots) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        entries => {
            let entries = entries.map_err(|error| Error::internal("could not list the images", error))?;
            Ok(entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect())
        }
    }
}

/// Renames a directory first: no process must find one that is half removed.
fn discard(native: &Native, name: &str) -> io::Result<()> {
    let hidden = match name.starts_with(DRAFT) {
        true => name.to_owned(),
        false => format!("{DRAFT}{name}"),
    };
    fs::rename(native.home.snapshots.join(name), native.home.snapshots.join(&hidden))?;
    let parent = File::open(&native.home.snapshots)?;
    tree::remove(parent.as_fd(), &CString::new(hidden).map_err(io::Error::other)?)
}

fn read(directory: &Path) -> io::Result<About> {
    Ok(serde_json::from_slice(&fs::read(directory.join(ABOUT))?)?)
}

fn disk(index: usize) -> String {
    format!("disk.{index}")
}

fn unknown(image: &ImageId) -> Error {
    Error::new(Kind::ImageNotFound, format!("image `{image}` is not here"))
        .hint("`coracle image list` shows those there are; `coracle snapshot` makes one")
        .detail("image", image.as_str())
}
