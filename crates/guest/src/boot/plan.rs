//! The boot plan: one message from the host, and the descriptors that belong to it in a fixed order.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{UnixListener, UnixStream};

use coracle_sys::descriptors;
use coracle_sys::mount::{self, Attributes};
use coracle_wire::{Boot, Source};

use super::Failure;
use crate::weak;

/// The devices of `/dev`, in the order of their descriptors.
pub const DEVICES: [&str; 6] = ["null", "zero", "full", "random", "urandom", "tty"];
/// The environment is at most 512 KiB, the filters a few KiB, paths 4 KiB each.
const PLAN_MAX: usize = 2 << 20;

/// Everything the guest is made from.
#[derive(Debug)]
pub struct Plan {
    pub boot: Boot,
    pub listener: UnixListener,
    /// Where the guest writes why it ended by itself. With a container engine its exit code says so instead.
    pub end: Option<OwnedFd>,
    /// The image's root, the topmost layer first. Read-only, because they are lower layers of an overlay.
    pub layers: Vec<OwnedFd>,
    /// The sandbox's own storage, if it is not in memory: the upper layers and the workspace.
    pub storage: Option<OwnedFd>,
    pub devices: Vec<OwnedFd>,
    /// Lower layers of the directories that get an overlay of their own.
    pub overlays: Vec<OwnedFd>,
    /// Directories the caller mounts.
    pub mounts: Vec<OwnedFd>,
    /// Disks with the files the sandbox starts from.
    pub bases: Vec<OwnedFd>,
    /// The v2 cgroup of commands, if there is one.
    pub commands: Option<OwnedFd>,
    /// `tasks` files of the commands' v1 cgroups.
    pub joins: Vec<OwnedFd>,
    pub memory_counter: Option<OwnedFd>,
    pub pids_counter: Option<OwnedFd>,
}

impl Plan {
    /// Tells whether the user namespace has only one user: without root the host cannot map more.
    pub fn is_single_user(&self) -> bool {
        !self.boot.sources.is_empty()
    }
}

/// Receives the plan.
pub fn receive(socket: &UnixStream) -> Result<Plan, Failure> {
    let (payload, descriptors) =
        descriptors::receive(socket, PLAN_MAX).map_err(Failure::at("receive the boot plan"))?;
    let boot: Boot = coracle_wire::decode(&payload)
        .map_err(io::Error::other)
        .map_err(Failure::at("read the boot plan"))?;
    weak::heed(boot.weakened);
    let opened = boot.sources.iter().map(open).collect::<Result<Vec<_>, _>>()?;
    sort(boot, opened, descriptors).ok_or_else(|| {
        Failure::at("sort the boot descriptors")(io::Error::from(io::ErrorKind::UnexpectedEof))
    })
}

/// Opens a mount that only a process in this namespace can open: without root, no other process may copy a mount
/// for us.
fn open(source: &Source) -> Result<OwnedFd, Failure> {
    let path = std::path::Path::new(std::ffi::OsStr::from_bytes(&source.path));
    let copied = mount::copy(path).and_then(|copy| {
        let read_only = if source.read_only { Attributes::MOUNT_ATTR_RDONLY } else { Attributes::empty() };
        // A device on a `nodev` mount could not be opened.
        let plain = if path.starts_with("/dev") { Attributes::MOUNT_ATTR_NOSUID } else { mount::plain() };
        mount::set(copy.as_fd(), plain | read_only, None)?;
        Ok(copy)
    });
    copied.map_err(Failure::at(&format!("open {}", path.display())))
}

/// Sorts the descriptors: first the mounts, which the guest or the host opened, then what only the host can give.
fn sort(boot: Boot, opened: Vec<OwnedFd>, descriptors: Vec<OwnedFd>) -> Option<Plan> {
    let mut given = descriptors.into_iter();
    let listener = given.next()?.into();
    let end = given.next();
    end.as_ref()?;
    let mut trees = opened.into_iter().chain(given);
    let mut take = |count: usize| (0..count).map(|_| trees.next()).collect::<Option<Vec<_>>>();
    Some(Plan {
        listener,
        end,
        layers: take(boot.layers as usize)?,
        storage: if boot.memory.is_none() { take(1)?.pop() } else { None },
        devices: take(DEVICES.len())?,
        overlays: take(boot.overlays.len())?,
        mounts: take(boot.mounts.len())?,
        bases: take(boot.bases.len())?,
        commands: if boot.without_cgroups.is_none() { take(1)?.pop() } else { None },
        joins: take(boot.joins as usize)?,
        memory_counter: if boot.memory_counter { take(1)?.pop() } else { None },
        pids_counter: if boot.pids_counter { take(1)?.pop() } else { None },
        boot,
    })
}
