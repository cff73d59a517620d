//! The sandbox's filesystem: an overlay over the image, what the kernel provides, the workspace, and nothing else.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use coracle_sys::mount::{self, Attributes};
use coracle_sys::rustix::fs::{CWD, Mode, OFlags, ResolveFlags, mkdirat, openat2, stat};
use coracle_sys::rustix::io::Errno;
use coracle_sys::rustix::process::fchdir;

use super::plan::Plan;
use super::{Failure, devices, mask};

/// Builds the tree and makes it the root. Returns the directory of the terminals.
pub fn build(plan: &Plan) -> Result<OwnedFd, Failure> {
    mount::make_private().map_err(Failure::at("make mounts private"))?;
    enter_scratch()?;
    bring(plan.root.as_fd(), "lower")?;
    bring(plan.storage.as_fd(), "storage")?;
    let root = overlay("lower", "storage/upper", "storage/work")?;
    make_directory("root")?;
    mount::attach(root.as_fd(), "root").map_err(Failure::at("attach the root"))?;
    for (index, (name, lower)) in plan.boot.overlays.iter().zip(&plan.overlays).enumerate() {
        bring(lower.as_fd(), &format!("lower-{index}"))?;
        let layer = overlay(
            &format!("lower-{index}"),
            &format!("storage/upper-{index}"),
            &format!("storage/work-{index}"),
        )?;
        attach(layer.as_fd(), root.as_fd(), name)?;
    }
    let proc = mount::make(
        "proc",
        &[("hidepid", Some("invisible"))],
        mount::plain() | Attributes::MOUNT_ATTR_NOEXEC,
    )
    .map_err(Failure::at("make /proc"))?;
    attach(proc.as_fd(), root.as_fd(), "proc")?;
    let devpts = devices::build(plan, root.as_fd())?;
    attach(plan.workspace.as_fd(), root.as_fd(), "workspace")?;

    fchdir(&root).map_err(Failure::at("enter the root"))?;
    mount::pivot().map_err(Failure::at("make the root the root"))?;
    check_nothing_is_behind()?;
    mask::apply(plan.boot.shm_bytes)?;
    Ok(devpts)
}

/// Refuses to go on if the machine's root can still be reached from ours.
fn check_nothing_is_behind() -> Result<(), Failure> {
    let identity = |path: &str| {
        stat(path).map(|found| (found.st_dev, found.st_ino)).map_err(Failure::at("look behind the root"))
    };
    match identity("/")? == identity("/..")? {
        true => Ok(()),
        false => Err(Failure::at("leave the machine's root")(Errno::BUSY)),
    }
}

/// Mounts one detached filesystem on a directory of the new root, which may have been written by anyone: links on the
/// way there are refused.
pub fn attach(layer: BorrowedFd<'_>, root: BorrowedFd<'_>, name: &str) -> Result<(), Failure> {
    let target = match open_target(root, name) {
        Err(Errno::NOENT) => {
            mkdirat(root, name, Mode::from_raw_mode(0o755)).and_then(|()| open_target(root, name))
        }
        target => target,
    };
    let target = target.map_err(Failure::at(&format!("find /{name} in the image")))?;
    mount::attach_onto(layer, target.as_fd()).map_err(Failure::at(&format!("mount /{name}")))
}

fn open_target(root: BorrowedFd<'_>, name: &str) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    openat2(root, name, flags, Mode::empty(), ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS)
}

/// Covers a directory every machine has with a small filesystem to put layers in. It goes away with the old root; on
/// the root itself it would go away in its stead, and leave the machine's files behind `/..`.
fn enter_scratch() -> Result<(), Failure> {
    let scratch = mount::make("tmpfs", &[("mode", Some("0700")), ("size", Some("1m"))], mount::plain())
        .map_err(Failure::at("make a scratch mount"))?;
    mount::attach(scratch.as_fd(), "/dev").map_err(Failure::at("attach the scratch mount"))?;
    fchdir(&scratch).map_err(Failure::at("enter the scratch mount"))
}

fn bring(layer: BorrowedFd<'_>, name: &str) -> Result<(), Failure> {
    make_directory(name)?;
    mount::attach(layer, name).map_err(Failure::at(&format!("attach {name}")))
}

fn make_directory(name: &str) -> Result<(), Failure> {
    mkdirat(CWD, name, Mode::RWXU).map_err(Failure::at("make a scratch directory"))
}

/// Makes an overlay of layers whose names are ours, so that no option can hide in them.
fn overlay(lower: &str, upper: &str, work: &str) -> Result<OwnedFd, Failure> {
    let options = [
        ("lowerdir", Some(lower)),
        ("upperdir", Some(upper)),
        ("workdir", Some(work)),
        // Nothing of it is meant to survive a power cut, and unmounting must not sync the host's disk.
        ("volatile", None),
        ("userxattr", None),
    ];
    mount::make("overlay", &options, mount::plain()).map_err(Failure::at(&format!("overlay {lower}")))
}
