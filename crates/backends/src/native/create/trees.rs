//! The mounts a sandbox is built from. As root the host opens them here and the guest attaches them. Without root
//! no process outside may copy a mount, so the guest gets the paths.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use coracle_core::mount::Access;
use coracle_sys::idmap;
use coracle_sys::mount::{self, Attributes};
use coracle_wire::Source;

use super::bring::Brought;
use super::{Failure, at};
use crate::native::disk::{self, Purpose};
use crate::native::home::SandboxDir;
use crate::native::ids;
use crate::native::image::Root;
use crate::native::privilege::Privilege;
use crate::native::storage::Storage;
use crate::weak::{self, Wall};

/// Name and number of each harmless device, in the order the guest expects. Checked by number: a host's `/dev` is
/// not always what it should be.
const DEVICES: [(&str, u64); 6] = [
    ("null", 0x103),
    ("zero", 0x105),
    ("full", 0x107),
    ("random", 0x108),
    ("urandom", 0x109),
    ("tty", 0x500),
];
const O_PATH: i32 = 0o10_000_000;

/// Everything that is mounted, in the order the guest expects.
#[derive(Debug)]
pub enum Trees {
    Opened {
        trees: Vec<OwnedFd>,
        /// Those among them whose owner inside is not known yet; until then their files belong to no user of the
        /// sandbox.
        shared: Vec<Shared>,
    },
    Named(Vec<Source>),
}

/// A user of the sandbox, with the sandbox's own ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Owner {
    pub uid: u32,
    pub gid: u32,
}

impl Owner {
    pub const ROOT: Self = Self { uid: 0, gid: 0 };
}

/// A directory of the machine, mounted but not attached yet.
#[derive(Debug)]
pub struct Shared {
    mount: OwnedFd,
    /// Its owner on the machine.
    outside: Owner,
    /// The machine's id of the sandbox's root.
    base: u32,
}

impl Shared {
    /// Maps the owner of the directory to the user `inside`, in both directions: the owner's files belong to that
    /// user in the sandbox, and files that user creates belong to the owner outside.
    ///
    /// Other users of the sandbox get ids of the sandbox's own range, which no user of the machine has: the kernel
    /// maps no two users to one. Files of other users of the machine belong to no user of the sandbox.
    pub fn show_to(&self, inside: Owner) -> io::Result<()> {
        let users = ranges(self.base, self.outside.uid, inside.uid);
        let groups = ranges(self.base, self.outside.gid, inside.gid);
        let namespace = idmap::namespace(&users, &groups)?;
        mount::set(self.mount.as_fd(), Attributes::empty(), Some(namespace.as_fd()))
    }
}

/// Returns the id map of files: `outside` maps to `inside`, and the other ids of the sandbox's range, which starts
/// at `base`, to themselves. If `outside` is one of these, the two are swapped.
fn ranges(base: u32, outside: u32, inside: u32) -> Vec<idmap::Range> {
    let (end, own) = (base + ids::COUNT, base + inside);
    let mut taken = vec![(outside, own)];
    if (base..end).contains(&outside) && outside != own {
        taken.push((own, outside));
    }
    let mut ranges: Vec<_> =
        taken.iter().map(|(file, shown)| idmap::Range { inside: *file, outside: *shown, count: 1 }).collect();
    let mut gaps: Vec<u32> = taken.iter().map(|(_, shown)| *shown).collect();
    gaps.sort_unstable();
    let mut start = base;
    for gap in gaps.into_iter().chain([end]) {
        if gap > start {
            ranges.push(idmap::Range { inside: start, outside: start, count: gap - start });
        }
        start = gap + 1;
    }
    ranges
}

/// What the mounts are opened from.
#[derive(Debug)]
pub struct Site<'a> {
    pub root: &'a Root,
    pub dir: &'a SandboxDir,
    pub storage: Storage,
    pub brought: &'a [Brought],
    /// How many disks the sandbox starts from.
    pub bases: usize,
    /// Its own storage has files of an earlier guest.
    pub wakes: bool,
    /// The devices its disks were last seen on, its own first.
    pub known: &'a [PathBuf],
    /// The machine's id of the sandbox's root, and the namespace it is root in.
    pub base: u32,
    pub namespace: BorrowedFd<'a>,
}

impl Trees {
    /// Opens the mounts, or returns their paths.
    pub fn open(site: &Site<'_>, privilege: Privilege) -> Result<Self, Failure> {
        match privilege {
            Privilege::Root => site.opened(),
            Privilege::Rootless { .. } => site.named().map(Self::Named),
        }
    }
}

impl Site<'_> {
    /// Maps the machine's own files to the namespace's ids, so that root's files belong to root.
    fn opened(&self) -> Result<Trees, Failure> {
        let lower = |path: &Path| copy(path, read_only(), Some(self.namespace));
        let mut trees = Vec::new();
        for layer in &self.root.layers {
            trees.push(lower(layer).map_err(at("open the image"))?);
        }
        trees.extend(self.opened_storage()?);
        for (name, number) in DEVICES {
            trees.push(
                device(name, number)
                    .and_then(|file| mount::copy_from(file.as_fd()))
                    .map_err(at("open the devices"))?,
            );
        }
        for layer in &self.root.shared {
            trees.push(lower(&layer.path).map_err(at("open the machine's programs"))?);
        }
        let mut shared = Vec::new();
        for brought in self.brought {
            let (mount, of_machine) = self.opened_mount(brought).map_err(at("open a mount"))?;
            trees.push(mount);
            shared.extend(of_machine);
        }
        trees.extend(self.opened_bases()?);
        Ok(Trees::Opened { trees, shared })
    }

    /// Opens what another root of the same sandbox is made from, with its storage as it is.
    pub fn opened_again(&self) -> Result<Vec<OwnedFd>, Failure> {
        let lower = |path: &Path| copy(path, read_only(), Some(self.namespace));
        let mut trees = Vec::new();
        for layer in &self.root.layers {
            trees.push(lower(layer).map_err(at("open the image"))?);
        }
        let known = self.known.first().map(PathBuf::as_path);
        let storage = disk::mount_again(&self.dir.disk(), known, Some(self.namespace), Attributes::empty());
        trees.push(storage.map_err(at("mount the disk again"))?.tree);
        for layer in &self.root.shared {
            trees.push(lower(&layer.path).map_err(at("open the machine's programs"))?);
        }
        trees.extend(self.opened_bases()?);
        Ok(trees)
    }

    /// Opens the disks the sandbox starts from, read-only.
    fn opened_bases(&self) -> Result<Vec<OwnedFd>, Failure> {
        let open = |index: usize| {
            let file = self.dir.base(index);
            let known = self.known.get(index + 1).map(PathBuf::as_path);
            let mounted = disk::mount_again(&file, known, Some(self.namespace), sealed())?;
            self.dir.note_device(&file, &mounted.device)?;
            Ok(mounted.tree)
        };
        (0..self.bases).map(open).collect::<io::Result<_>>().map_err(at("mount the disks it starts from"))
    }

    fn opened_storage(&self) -> Result<Option<OwnedFd>, Failure> {
        match self.storage {
            Storage::Memory(_) => Ok(None),
            Storage::Directory => {
                let path = self.storage_directory(Some(self.base))?;
                copy(&path, weak::plain(), None).map(Some).map_err(at("open the storage"))
            }
            Storage::Disk(_) => self.opened_disk().map(Some).map_err(at("mount the disk")),
        }
    }

    fn storage_directory(&self, owner: Option<u32>) -> Result<PathBuf, Failure> {
        match self.wakes {
            false => self.dir.make_storage(owner).map_err(at("make the storage")),
            true => Ok(self.dir.storage()),
        }
    }

    fn opened_disk(&self) -> io::Result<OwnedFd> {
        let (disk, known) = (self.dir.disk(), self.known.first().map(PathBuf::as_path));
        let mounted = match self.wakes {
            false => disk::mount(&disk, Purpose::Scratch, Some(self.namespace))?,
            // The kernel may not have let go of the device yet, and sandboxes forked from this one use it.
            true => disk::mount_again(&disk, known, Some(self.namespace), Attributes::empty())?,
        };
        self.dir.note_device(&self.dir.disk(), &mounted.device)?;
        Ok(mounted.tree)
    }

    /// Opens a mount. Returns a directory of the machine a second time, so that it can be mapped to a user later.
    fn opened_mount(&self, brought: &Brought) -> io::Result<(OwnedFd, Option<Shared>)> {
        let attributes = if brought.access == Access::ReadWrite { mount::plain() } else { read_only() };
        if let Some(file) = &brought.disk {
            let volume = disk::mount(file, Purpose::Volume, Some(self.namespace))?.tree;
            mount::set(volume.as_fd(), attributes, None)?;
            return Ok((volume, None));
        }
        let directory = match &brought.directory {
            Some(directory) => directory.try_clone()?,
            None => File::open(&brought.path)?,
        };
        let found = directory.metadata()?;
        let mount = mount::copy_from(directory.as_fd())?;
        mount::set(mount.as_fd(), attributes, None)?;
        let outside = Owner { uid: found.uid(), gid: found.gid() };
        let shared = Shared { mount: mount.try_clone()?, outside, base: self.base };
        Ok((mount, Some(shared)))
    }

    fn named(&self) -> Result<Vec<Source>, Failure> {
        use std::os::unix::ffi::OsStrExt;
        let source =
            |path: &Path, read_only: bool| Source { path: path.as_os_str().as_bytes().to_vec(), read_only };
        let mut sources: Vec<_> = self.root.layers.iter().map(|layer| source(layer, true)).collect();
        if self.storage == Storage::Directory {
            let path = self.storage_directory(None)?;
            sources.push(source(&path, false));
        }
        for (name, number) in DEVICES {
            device(name, number).map_err(at("open the devices"))?;
            sources.push(source(&Path::new("/dev").join(name), false));
        }
        sources.extend(self.root.shared.iter().map(|layer| source(&layer.path, true)));
        let mounts = self.brought.iter();
        sources.extend(mounts.map(|brought| source(&brought.path, brought.access != Access::ReadWrite)));
        Ok(sources)
    }
}

/// The attributes of a mount that must not be written to.
fn read_only() -> Attributes {
    if weak::off(Wall::Layers) { weak::plain() } else { weak::plain() | Attributes::MOUNT_ATTR_RDONLY }
}

/// The attributes of a mount with files that several sandboxes share.
fn sealed() -> Attributes {
    if weak::off(Wall::Layers) { Attributes::empty() } else { Attributes::MOUNT_ATTR_RDONLY }
}

fn copy(path: &Path, attributes: Attributes, ids: Option<BorrowedFd<'_>>) -> io::Result<OwnedFd> {
    let mount = mount::copy(path)?;
    mount::set(mount.as_fd(), attributes, weak::mapped(ids))?;
    Ok(mount)
}

/// Opens a device of the machine, if it is what its name says.
fn device(name: &str, number: u64) -> io::Result<File> {
    let path: PathBuf = Path::new("/dev").join(name);
    let file = File::options().read(true).custom_flags(O_PATH).open(path)?;
    let metadata = file.metadata()?;
    if !metadata.file_type().is_char_device() || metadata.rdev() != number {
        return Err(io::Error::other(format!("/dev/{name} is not the device of that name")));
    }
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASE: u32 = 0x2000_0000;

    /// Returns the user that owns a file of `outside` in the sandbox, by the ranges.
    fn shown(ranges: &[idmap::Range], outside: u32) -> Option<u32> {
        let within =
            ranges.iter().find(|range| (range.inside..range.inside + range.count).contains(&outside))?;
        Some(outside - within.inside + within.outside - BASE)
    }

    #[test]
    fn the_owner_of_a_directory_is_one_user_inside_and_every_user_has_an_id_outside() {
        for (outside, inside) in [(0, 0), (1000, 0), (1000, 1000), (0, 65_534), (BASE, 0), (BASE + 7, 1000)] {
            let ranges = ranges(BASE, outside, inside);

            assert_eq!(shown(&ranges, outside), Some(inside), "{outside} as {inside}");
            let users: u32 = ranges.iter().map(|range| range.count).sum();
            assert_eq!(users, ids::COUNT, "each of its users has an id outside: {ranges:?}");
            for (index, one) in ranges.iter().enumerate() {
                for other in &ranges[index + 1..] {
                    let apart = |a: u32, b: u32| a + one.count <= b || b + other.count <= a;
                    assert!(
                        apart(one.inside, other.inside) && apart(one.outside, other.outside),
                        "{ranges:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn files_of_other_users_belong_to_no_user_inside() {
        let ranges = ranges(BASE, 1000, 0);

        assert_eq!((shown(&ranges, 0), shown(&ranges, 1001)), (None, None));
        assert_eq!(shown(&ranges, BASE + 5), Some(5));
    }
}
