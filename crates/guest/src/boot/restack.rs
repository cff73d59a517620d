//! Puts a new generation of files on top of a live sandbox's own. What the sandbox has written so far becomes a
//! layer that no process writes to any more, so that forks can be made from it.
//!
//! Runs as a separate process in the sandbox's user and mount namespaces, which commands cannot see: the guest
//! itself has dropped the privileges this takes. No command runs meanwhile and the guest waits. The process builds
//! a second root beside the current one and swaps them in one step; before that step nothing has changed, after it
//! everything has.

use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use coracle_sys::rustix::fs::{Mode, OFlags, ResolveFlags, fstat, open, openat2};
use coracle_sys::rustix::process::{chroot, fchdir};
use coracle_sys::{descriptors, mount};
use coracle_wire::Restack;

use super::hold::Hold;
use super::storage::{self, Storage};
use super::{Failure, root};
use crate::weak;

/// The names of a few directories and some numbers.
const PLAN_MAX: usize = 64 << 10;
/// The least time the guest holds the sandbox for the one step that cannot be undone. The step takes a millisecond.
const STEP: Duration = Duration::from_secs(30);

/// The descriptors the new root is made from.
struct Materials {
    layers: Vec<OwnedFd>,
    storage: OwnedFd,
    overlays: Vec<OwnedFd>,
    bases: Vec<OwnedFd>,
}

/// Restacks, and sends the host the last frozen generation and the device of the new root.
pub fn restack(mut socket: &UnixStream) -> Result<(), Failure> {
    let (plan, materials) = receive(socket)?;
    let word = match storage::is_full(materials.storage.as_fd())? {
        true => vec![Restack::FULL],
        false => {
            // Entering the mount namespace led to this directory, not to the root mounted on top of it.
            let bottom = directory(".")?;
            enter_bench()?;
            // A failure leaves nothing behind; after a success the bench is already gone.
            restack_from(bottom.as_fd(), &plan, &materials).inspect_err(|_| {
                let _ = fchdir(&bottom).map_err(io::Error::from).and_then(|()| mount::detach(root::BENCH));
            })?
        }
    };
    socket.write_all(&word).map_err(Failure::at("tell the host"))
}

fn restack_from(bottom: BorrowedFd<'_>, plan: &Restack, materials: &Materials) -> Result<Vec<u8>, Failure> {
    let storage = Storage::advance(materials.storage.as_fd(), &materials.bases, &plan.bases)?;
    let next = build(plan, materials, &storage, bottom)?;
    let device = fstat(&next).map_err(Failure::at("look at the new root"))?.st_dev;
    let mut hold = Hold::take(plan.renewal)?;
    hold.renew(STEP)?;
    replace(bottom, next.as_fd()).map_err(Failure::at("replace the root"))?;
    hold.go_back();
    let mut word = vec![Restack::DONE];
    word.extend(storage.frozen_generation().to_le_bytes());
    word.extend(device.to_le_bytes());
    Ok(word)
}

fn receive(socket: &UnixStream) -> Result<(Restack, Materials), Failure> {
    let (payload, received) =
        descriptors::receive(socket, PLAN_MAX).map_err(Failure::at("receive the plan"))?;
    let plan: Restack =
        coracle_wire::decode(&payload).map_err(io::Error::other).map_err(Failure::at("read the plan"))?;
    weak::heed(plan.weakened);
    let mut received = received.into_iter();
    let mut take = |count: usize| received.by_ref().take(count).collect::<Vec<_>>();
    let layers = take(plan.layers as usize);
    let storage = take(1).pop();
    let materials = storage.map(|storage| Materials {
        layers,
        storage,
        overlays: take(plan.overlays.len()),
        bases: take(plan.bases.len()),
    });
    let missing = || Failure::at("sort the descriptors")(io::Error::from(io::ErrorKind::UnexpectedEof));
    Ok((plan, materials.ok_or_else(missing)?))
}

/// Mounts a small filesystem beside the root to put layers in.
fn enter_bench() -> Result<(), Failure> {
    let bench = mount::make("tmpfs", &[("mode", Some("0700")), ("size", Some("1m"))], mount::plain())
        .map_err(Failure::at("make a bench"))?;
    mount::attach(bench.as_fd(), root::BENCH).map_err(Failure::at("attach the bench"))?;
    fchdir(&bench).map_err(Failure::at("enter the bench"))
}

/// Builds the root as it was, with a new layer on top. Takes `/proc` and `/dev` over from the old root.
fn build(
    plan: &Restack,
    materials: &Materials,
    storage: &Storage,
    bottom: BorrowedFd<'_>,
) -> Result<OwnedFd, Failure> {
    let next = root::overlay(storage, &materials.layers, "root")?;
    root::make_directory("next")?;
    mount::attach(next.as_fd(), "next").map_err(Failure::at("attach the new root"))?;
    root::attach_overlays(storage, &plan.overlays, &materials.overlays, next.as_fd())?;
    for name in ["proc", "dev"] {
        let copy = taken_over(bottom, name).map_err(Failure::at("take over what is mounted"))?;
        root::attach(copy.as_fd(), next.as_fd(), name)?;
    }
    root::attach(root::workspace(storage)?.as_fd(), next.as_fd(), "workspace")?;
    Ok(next)
}

/// Copies a mount of the old root with everything mounted on it. Commands cannot move or remove a mount point.
fn taken_over(bottom: BorrowedFd<'_>, name: &str) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let within = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
    let found = openat2(bottom, format!("{}/{name}", root::ROOT), flags, Mode::empty(), within)?;
    mount::copy_tree(found.as_fd())
}

/// Replaces the root of every process of the sandbox, and unmounts the old one.
fn replace(bottom: BorrowedFd<'_>, next: BorrowedFd<'_>) -> io::Result<()> {
    fchdir(bottom)?;
    chroot(root::ROOT)?;
    mount::attach(next, "/")?;
    fchdir(next)?;
    mount::pivot()?;
    fchdir(bottom)?;
    mount::detach(root::BENCH)
}

fn directory(path: &str) -> Result<OwnedFd, Failure> {
    open(path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
        .map_err(Failure::at("open the bottom"))
}
