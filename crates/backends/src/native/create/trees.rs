//! The mounts a sandbox is built from. As root they are opened here and attached by the guest; without root nobody
//! outside may copy a mount, and the guest is told the paths.

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
use crate::native::home::Room;
use crate::native::image::Root;
use crate::native::privilege::Privilege;
use crate::native::storage::Storage;
use crate::weak::{self, Wall};

/// Name and number of each harmless device, in the order the guest expects them. Taken by number: a host's `/dev` is
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

/// Everything that is mounted, in the order the guest expects it.
#[derive(Debug)]
pub enum Trees {
    Opened(Vec<OwnedFd>),
    Named(Vec<Source>),
}

/// What they are opened from.
#[derive(Debug)]
pub struct Site<'a> {
    pub root: &'a Root,
    pub room: &'a Room,
    pub storage: Storage,
    pub brought: &'a [Brought],
    /// How many disks it starts from.
    pub bases: usize,
    /// The devices its disks were last seen on, its own first.
    pub known: &'a [PathBuf],
    /// The machine's id of the sandbox's root, and the namespace it is root in.
    pub base: u32,
    pub namespace: BorrowedFd<'a>,
}

impl Trees {
    /// Opens them, or says where they are.
    pub fn open(site: &Site<'_>, privilege: Privilege) -> Result<Self, Failure> {
        match privilege {
            Privilege::Root => site.opened().map(Self::Opened),
            Privilege::Rootless { .. } => site.named().map(Self::Named),
        }
    }
}

impl Site<'_> {
    /// What is the machine's own is shown with the ids of the namespace, so that root's files are root's.
    fn opened(&self) -> Result<Vec<OwnedFd>, Failure> {
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
        for name in &self.root.shared {
            trees.push(lower(&Path::new("/").join(name)).map_err(at("open the machine's programs"))?);
        }
        for brought in self.brought {
            trees.push(self.opened_mount(brought).map_err(at("open a mount"))?);
        }
        trees.extend(self.opened_bases()?);
        Ok(trees)
    }

    /// Opens what another root of the same sandbox is made from, with its storage as it is.
    pub fn opened_again(&self) -> Result<Vec<OwnedFd>, Failure> {
        let lower = |path: &Path| copy(path, read_only(), Some(self.namespace));
        let mut trees = Vec::new();
        for layer in &self.root.layers {
            trees.push(lower(layer).map_err(at("open the image"))?);
        }
        let known = self.known.first().map(PathBuf::as_path);
        let storage = disk::mount_again(&self.room.disk(), known, Some(self.namespace), Attributes::empty());
        trees.push(storage.map_err(at("mount the disk again"))?.tree);
        for name in &self.root.shared {
            trees.push(lower(&Path::new("/").join(name)).map_err(at("open the machine's programs"))?);
        }
        trees.extend(self.opened_bases()?);
        Ok(trees)
    }

    /// Opens the disks it starts from, to be read only.
    fn opened_bases(&self) -> Result<Vec<OwnedFd>, Failure> {
        let open = |index: usize| {
            let file = self.room.base(index);
            let known = self.known.get(index + 1).map(PathBuf::as_path);
            let mounted = disk::mount_again(&file, known, Some(self.namespace), sealed())?;
            self.room.note_device(&file, &mounted.device)?;
            Ok(mounted.tree)
        };
        (0..self.bases).map(open).collect::<io::Result<_>>().map_err(at("mount the disks it starts from"))
    }

    fn opened_storage(&self) -> Result<Option<OwnedFd>, Failure> {
        match self.storage {
            Storage::Memory(_) => Ok(None),
            Storage::Directory => {
                let path = self.room.make_storage(Some(self.base)).map_err(at("make the storage"))?;
                copy(&path, weak::plain(), None).map(Some).map_err(at("open the storage"))
            }
            Storage::Disk(_) => self.opened_disk().map(Some).map_err(at("mount the disk")),
        }
    }

    fn opened_disk(&self) -> io::Result<OwnedFd> {
        let mounted = disk::mount(&self.room.disk(), Purpose::Scratch, Some(self.namespace))?;
        self.room.note_device(&self.room.disk(), &mounted.device)?;
        Ok(mounted.tree)
    }

    fn opened_mount(&self, brought: &Brought) -> io::Result<OwnedFd> {
        let attributes = if brought.access == Access::ReadWrite { mount::plain() } else { read_only() };
        if let Some(file) = &brought.disk {
            let volume = disk::mount(file, Purpose::Volume, Some(self.namespace))?.tree;
            mount::set(volume.as_fd(), attributes, None)?;
            return Ok(volume);
        }
        let directory = match &brought.directory {
            Some(directory) => directory.try_clone()?,
            None => File::open(&brought.path)?,
        };
        let namespace = self.owners(&directory)?;
        let mount = mount::copy_from(directory.as_fd())?;
        mount::set(mount.as_fd(), attributes, Some(namespace.as_fd()))?;
        Ok(mount)
    }

    /// Returns the namespace in which whoever owns a directory is root of the sandbox: what they have there is root's
    /// inside, and what root makes inside is theirs. Nobody else's files in it belong to anyone in the sandbox.
    fn owners(&self, directory: &File) -> io::Result<OwnedFd> {
        let found = directory.metadata()?;
        let range = |inside: u32| idmap::Range { inside, outside: self.base, count: 1 };
        idmap::namespace(range(found.uid()), range(found.gid()))
    }

    fn named(&self) -> Result<Vec<Source>, Failure> {
        use std::os::unix::ffi::OsStrExt;
        let source =
            |path: &Path, read_only: bool| Source { path: path.as_os_str().as_bytes().to_vec(), read_only };
        let mut sources: Vec<_> = self.root.layers.iter().map(|layer| source(layer, true)).collect();
        if self.storage == Storage::Directory {
            let path = self.room.make_storage(None).map_err(at("make the storage"))?;
            sources.push(source(&path, false));
        }
        for (name, number) in DEVICES {
            device(name, number).map_err(at("open the devices"))?;
            sources.push(source(&Path::new("/dev").join(name), false));
        }
        sources.extend(self.root.shared.iter().map(|name| source(&Path::new("/").join(name), true)));
        let mounts = self.brought.iter();
        sources.extend(mounts.map(|brought| source(&brought.path, brought.access != Access::ReadWrite)));
        Ok(sources)
    }
}

/// What a mount gets that may not be written to.
fn read_only() -> Attributes {
    if weak::off(Wall::Layers) { weak::plain() } else { weak::plain() | Attributes::MOUNT_ATTR_RDONLY }
}

/// What a mount of files that others share gets.
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
