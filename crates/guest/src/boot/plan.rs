//! What the host sends at boot: one message and the descriptors that belong to it, in a fixed order.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};

use coracle_sys::descriptors;
use coracle_wire::Boot;

use super::Failure;

/// The devices of `/dev`, in the order their descriptors come in.
pub const DEVICES: [&str; 6] = ["null", "zero", "full", "random", "urandom", "tty"];
/// The environment is at most 512 KiB, the filters a few KiB.
const PLAN_MAX: usize = 1 << 20;

/// Everything the guest is made from.
#[derive(Debug)]
pub struct Plan {
    pub boot: Boot,
    pub listener: UnixListener,
    /// The image's root, read-only by being a lower layer.
    pub root: OwnedFd,
    /// The sandbox's own storage: the upper layers.
    pub storage: OwnedFd,
    pub workspace: OwnedFd,
    pub devices: Vec<OwnedFd>,
    /// The v2 cgroup of commands.
    pub commands: OwnedFd,
    /// Lower layers of the directories that are an overlay of their own.
    pub overlays: Vec<OwnedFd>,
    /// `tasks` files of the commands' v1 cgroups.
    pub joins: Vec<OwnedFd>,
    pub memory_counter: Option<OwnedFd>,
    pub pids_counter: Option<OwnedFd>,
}

/// Receives the plan.
pub fn receive(socket: &UnixStream) -> Result<Plan, Failure> {
    let (payload, descriptors) =
        descriptors::receive(socket, PLAN_MAX).map_err(Failure::at("receive the boot plan"))?;
    let boot: Boot = coracle_wire::decode(&payload)
        .map_err(io::Error::other)
        .map_err(Failure::at("read the boot plan"))?;
    sort(boot, descriptors).ok_or_else(|| {
        Failure::at("sort the boot descriptors")(io::Error::from(io::ErrorKind::UnexpectedEof))
    })
}

fn sort(boot: Boot, descriptors: Vec<OwnedFd>) -> Option<Plan> {
    let mut next = descriptors.into_iter();
    Some(Plan {
        listener: next.next()?.into(),
        root: next.next()?,
        storage: next.next()?,
        workspace: next.next()?,
        devices: DEVICES.iter().map(|_| next.next()).collect::<Option<_>>()?,
        commands: next.next()?,
        overlays: boot.overlays.iter().map(|_| next.next()).collect::<Option<_>>()?,
        joins: (0..boot.joins).map(|_| next.next()).collect::<Option<_>>()?,
        memory_counter: if boot.memory_counter { Some(next.next()?) } else { None },
        pids_counter: if boot.pids_counter { Some(next.next()?) } else { None },
        boot,
    })
}
