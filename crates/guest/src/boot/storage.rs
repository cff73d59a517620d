//! The sandbox's own files: what it writes over its image, and its workspace. They share one filesystem, so that
//! one limit bounds them all.
//!
//! They are kept in generations, directories numbered from 0. The sandbox writes only to the last; forks were made
//! from the earlier ones, which stay as they are. In each generation, the layer called `name` is `upper-name`.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use coracle_sys::mount::{self, Attributes};
use coracle_sys::rustix::fs::{
    CWD, Gid, Mode, OFlags, ResolveFlags, Uid, fchmod, fchown, fstat, mkdirat, open, openat2,
};
use coracle_sys::rustix::io::Errno;
use coracle_sys::tree;

use super::plan::Plan;
use super::{Failure, root};

const PLACE: &str = "storage";
/// The most generations of one disk: each is one more layer in which the kernel looks names up.
const GENERATIONS_MAX: u32 = 32;

/// Where a sandbox's files are: the layers it starts from, and the generation it writes to.
#[derive(Debug)]
pub struct Storage {
    /// The top of the storage the sandbox writes to.
    own: OwnedFd,
    /// Each disk with the last generation of it to use, the topmost first.
    frozen: Vec<(OwnedFd, u32)>,
    generation: u32,
    /// The storage is a disk of its own, which may accept a write and fail to store it later.
    on_disk: bool,
}

impl Storage {
    /// Attaches the storage of a new sandbox in the scratch directory.
    pub fn bring(plan: &Plan) -> Result<Self, Failure> {
        let made = match (&plan.boot.memory, &plan.storage) {
            (Some(memory), _) => {
                let (size, inodes) = (memory.bytes.to_string(), memory.inodes.to_string());
                let options = [("mode", Some("0755")), ("size", Some(&*size)), ("nr_inodes", Some(&*inodes))];
                Some(
                    mount::make("tmpfs", &options, mount::plain())
                        .map_err(Failure::at("make storage in memory"))?,
                )
            }
            (None, _) => None,
        };
        let storage = made.as_ref().or(plan.storage.as_ref()).map(AsFd::as_fd);
        let storage = storage.ok_or_else(|| Failure::at("find the storage")(std::io::ErrorKind::NotFound))?;
        let own = attach(storage, PLACE)?;
        let frozen = bases(&plan.bases, &plan.boot.bases)?;
        let on_disk = plan.boot.on_disk;
        if plan.boot.wakes {
            return Self::go_on(own, frozen, on_disk);
        }
        let storage = Self { own, frozen, generation: 0, on_disk };
        storage.make_generation()?;
        Ok(storage)
    }

    /// Goes on writing to the last generation of a sandbox that wakes. Those before it were frozen by forks.
    fn go_on(own: OwnedFd, bases: Vec<(OwnedFd, u32)>, on_disk: bool) -> Result<Self, Failure> {
        let generation = last_generation(own.as_fd())?;
        let mut frozen = Vec::new();
        if let Some(before) = generation.checked_sub(1) {
            let again = beneath(own.as_fd(), ".").map_err(Failure::at("open the storage again"))?;
            frozen.extend(again.map(|own| (own, before)));
        }
        frozen.extend(bases);
        let storage = Self { own, frozen, generation, on_disk };
        storage.make_generation()?;
        Ok(storage)
    }

    /// Attaches the storage of a running sandbox, to begin its next generation. [`is_full`] tells whether it can.
    pub fn advance(storage: BorrowedFd<'_>, disks: &[OwnedFd], tops: &[u32]) -> Result<Self, Failure> {
        let own = attach(storage, PLACE)?;
        let top = last_generation(own.as_fd())?;
        let below = own.try_clone().map_err(Failure::at("keep the storage open"))?;
        let mut frozen = vec![(below, top)];
        frozen.extend(bases(disks, tops)?);
        let storage = Self { own, frozen, generation: top + 1, on_disk: true };
        storage.make_generation()?;
        Ok(storage)
    }

    /// Returns the top of the storage, which commands do not see: they see single layers of it.
    pub fn top(&self) -> Result<OwnedFd, Failure> {
        let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
        let within = ResolveFlags::BENEATH | ResolveFlags::NO_XDEV;
        openat2(&self.own, ".", flags, Mode::empty(), within).map_err(Failure::at("open the storage"))
    }

    /// Tells whether the sandbox starts from the image alone.
    pub fn is_fresh(&self) -> bool {
        self.frozen.is_empty()
    }

    /// Tells whether syncs must reach the disk, because the machine's disk may be full by the time the data is
    /// written. Memory, and a directory of the machine's, allocate space at the time of the write.
    pub fn syncs(&self) -> bool {
        self.on_disk
    }

    /// Returns the last generation that the sandbox no longer writes to.
    pub fn frozen_generation(&self) -> u32 {
        self.generation.saturating_sub(1)
    }

    /// Returns the layers of that name the sandbox starts from, the topmost first, ready to mount.
    pub fn layers(&self, name: &str) -> Result<Vec<OwnedFd>, Failure> {
        let mut layers = Vec::new();
        for (disk, top) in &self.frozen {
            for generation in (0..=*top).rev() {
                let found = beneath(disk.as_fd(), &format!("{generation}/upper-{name}"))
                    .map_err(Failure::at("open a frozen layer"))?;
                let Some(found) = found else { continue };
                layers.push(frozen(&found).map_err(Failure::at("mount a frozen layer"))?);
            }
        }
        Ok(layers)
    }

    /// Makes the upper and the work directory of an overlay. The upper one copies owner and mode of the layer below
    /// it.
    pub fn make_upper(&self, name: &str, like: Option<&OwnedFd>) -> Result<(String, String), Failure> {
        let (upper, work) = (format!("upper-{name}"), format!("work-{name}"));
        // The kernel refuses a work directory that an overlay without syncs has used before.
        self.remove(&work).map_err(Failure::at("remove a used work directory"))?;
        let made = self.make(&upper)?;
        let (upper, work) = (self.path(&upper), self.path(&work));
        make(&work)?;
        if let Some(like) = like.filter(|_| made == Made::Now) {
            imitate(&upper, like).map_err(Failure::at("make a layer like the one below"))?;
        }
        Ok((upper, work))
    }

    /// Makes a directory of that name with no layer below, ready to mount.
    pub fn make_plain(&self, name: &str) -> Result<OwnedFd, Failure> {
        let name = format!("upper-{name}");
        self.make(&name)?;
        mount::copy(Path::new(&self.path(&name))).map_err(Failure::at("open a directory of the storage"))
    }

    fn make_generation(&self) -> Result<(), Failure> {
        self.make_at(&self.generation.to_string()).map(drop)
    }

    /// Makes a directory in the generation the sandbox writes to, unless its last guest has.
    fn make(&self, name: &str) -> Result<Made, Failure> {
        self.make_at(&format!("{}/{name}", self.generation))
    }

    fn make_at(&self, name: &str) -> Result<Made, Failure> {
        match mkdirat(CWD, format!("{PLACE}/{name}"), Mode::from_raw_mode(0o755)) {
            Ok(()) => Ok(Made::Now),
            Err(Errno::EXIST) => {
                // A guest that was broken into might have left a link to a directory of the machine.
                let found =
                    beneath(self.own.as_fd(), name).map_err(Failure::at("open a layer of the storage"))?;
                found.map(|_| Made::Before).ok_or_else(|| Failure::at("find a layer")(Errno::NOENT))
            }
            Err(error) => Err(Failure::at("make a directory in the storage")(error)),
        }
    }

    fn remove(&self, name: &str) -> std::io::Result<()> {
        let Some(generation) = beneath(self.own.as_fd(), &self.generation.to_string())? else {
            return Ok(());
        };
        let name = std::ffi::CString::new(name).map_err(std::io::Error::other)?;
        tree::remove(generation.as_fd(), &name)
    }

    fn path(&self, name: &str) -> String {
        format!("{PLACE}/{}/{name}", self.generation)
    }
}

/// When a directory of the storage was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Made {
    Now,
    /// By an earlier guest of the same sandbox.
    Before,
}

/// Tells whether a disk has no room for another generation.
pub fn is_full(storage: BorrowedFd<'_>) -> Result<bool, Failure> {
    Ok(last_generation(storage)? + 1 >= GENERATIONS_MAX)
}

/// Attaches the disks a sandbox starts from.
fn bases(disks: &[OwnedFd], tops: &[u32]) -> Result<Vec<(OwnedFd, u32)>, Failure> {
    let numbered = disks.iter().zip(tops).enumerate();
    numbered.map(|(index, (disk, top))| Ok((attach(disk.as_fd(), &format!("base.{index}"))?, *top))).collect()
}

fn attach(disk: BorrowedFd<'_>, name: &str) -> Result<OwnedFd, Failure> {
    root::make_directory(name)?;
    mount::attach(disk, name).map_err(Failure::at(&format!("attach {name}")))?;
    open(name, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
        .map_err(Failure::at(&format!("open {name}")))
}

/// Returns the highest generation on a disk. One that was begun and never used is empty and harmless.
fn last_generation(storage: BorrowedFd<'_>) -> Result<u32, Failure> {
    for generation in 0..GENERATIONS_MAX {
        let next = beneath(storage, &(generation + 1).to_string());
        if next.map_err(Failure::at("look for generations"))?.is_none() {
            return Ok(generation);
        }
    }
    Ok(GENERATIONS_MAX)
}

/// Opens a directory of a disk. Follows no link: another guest made the directory, and an attacker may have
/// controlled it.
fn beneath(disk: BorrowedFd<'_>, name: &str) -> Result<Option<OwnedFd>, Errno> {
    let within = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
    match openat2(disk, name, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty(), within) {
        Err(Errno::NOENT) => Ok(None),
        found => found.map(Some),
    }
}

fn frozen(directory: &OwnedFd) -> std::io::Result<OwnedFd> {
    let layer = mount::copy_from(directory.as_fd())?;
    mount::set(layer.as_fd(), mount::plain() | Attributes::MOUNT_ATTR_RDONLY, None)?;
    Ok(layer)
}

/// Gives a directory the owner and the mode of another.
fn imitate(path: &str, like: &OwnedFd) -> std::io::Result<()> {
    let found = fstat(like)?;
    let directory = open(path, OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    fchown(&directory, Some(Uid::from_raw(found.st_uid)), Some(Gid::from_raw(found.st_gid)))?;
    Ok(fchmod(&directory, Mode::from_raw_mode(found.st_mode & 0o7777))?)
}

fn make(path: &str) -> Result<(), Failure> {
    mkdirat(CWD, path, Mode::from_raw_mode(0o755)).map_err(Failure::at("make a directory in the storage"))
}
