//! The mounts a sandbox is built from, opened on the host and attached by the guest.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use coracle_images::host::Host;
use coracle_sys::mount::{self, Attributes};

use super::{Failure, at};
use crate::native::home::Room;

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

/// Detached mounts.
#[derive(Debug)]
pub struct Layers {
    root: OwnedFd,
    storage: OwnedFd,
    workspace: OwnedFd,
    devices: Vec<OwnedFd>,
    shared: Vec<OwnedFd>,
}

impl Layers {
    /// Opens them. What is the machine's own is shown with the ids of `namespace`, so that root's files are root's.
    pub fn open(image: &Host, room: &Room, namespace: BorrowedFd<'_>) -> Result<Self, Failure> {
        let lower = |path: &Path| copy(path, mount::plain() | Attributes::MOUNT_ATTR_RDONLY, Some(namespace));
        let own = |name: &str| copy(&room.path.join(name), mount::plain(), None);
        Ok(Self {
            root: lower(&image.skeleton).map_err(at("open the image"))?,
            storage: own("storage").map_err(at("open the storage"))?,
            workspace: own("workspace").map_err(at("open the workspace"))?,
            devices: DEVICES
                .iter()
                .map(|(name, number)| device(name, *number))
                .collect::<io::Result<_>>()
                .map_err(at("open the devices"))?,
            shared: image
                .shared
                .iter()
                .map(|name| lower(&Path::new("/").join(name)))
                .collect::<io::Result<_>>()
                .map_err(at("open the machine's programs"))?,
        })
    }

    /// Returns those every sandbox has.
    pub fn fixed(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        [&self.root, &self.storage, &self.workspace].into_iter().chain(&self.devices).map(AsFd::as_fd)
    }

    /// Returns the machine's own directories.
    pub fn shared(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.shared.iter().map(AsFd::as_fd)
    }
}

fn copy(path: &Path, attributes: Attributes, ids: Option<BorrowedFd<'_>>) -> io::Result<OwnedFd> {
    let mount = mount::copy(path)?;
    mount::set(mount.as_fd(), attributes, ids)?;
    Ok(mount)
}

fn device(name: &str, number: u64) -> io::Result<OwnedFd> {
    let file = File::options().read(true).custom_flags(O_PATH).open(Path::new("/dev").join(name))?;
    let metadata = file.metadata()?;
    if !metadata.file_type().is_char_device() || metadata.rdev() != number {
        return Err(io::Error::other(format!("/dev/{name} is not the device of that name")));
    }
    mount::copy_from(file.as_fd())
}
