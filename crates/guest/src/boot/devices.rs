//! Builds a minimal `/dev`: harmless devices, terminals of the sandbox's own, bounded shared memory.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use coracle_sys::mount::{self, Attributes};
use coracle_sys::rustix::fs::{Mode, OFlags, mkdirat, openat, symlinkat};

use super::plan::{DEVICES, Plan};
use super::{Failure, root};

const LINKS: [(&str, &str); 5] = [
    ("fd", "/proc/self/fd"),
    ("stdin", "/proc/self/fd/0"),
    ("stdout", "/proc/self/fd/1"),
    ("stderr", "/proc/self/fd/2"),
    ("ptmx", "pts/ptmx"),
];

/// Builds `/dev` below the new root. Returns the root of the terminals' filesystem.
pub fn build(plan: &Plan, new_root: BorrowedFd<'_>) -> Result<OwnedFd, Failure> {
    let noexec = mount::plain() | Attributes::MOUNT_ATTR_NOEXEC;
    // The devices are mounts from the host's `/dev`, so they keep working although this filesystem is `nodev`.
    let dev = mount::make("tmpfs", &[("mode", Some("0755")), ("size", Some("64k"))], mount::plain())
        .map_err(Failure::at("make /dev"))?;
    for name in DEVICES {
        openat(&dev, name, OFlags::CREATE | OFlags::CLOEXEC, Mode::from_raw_mode(0o666))
            .map_err(Failure::at("make a device"))?;
    }
    for (name, target) in LINKS {
        symlinkat(target, &dev, name).map_err(Failure::at("make a link in /dev"))?;
    }
    for name in ["pts", "shm"] {
        mkdirat(&dev, name, Mode::from_raw_mode(0o755)).map_err(Failure::at("make a directory in /dev"))?;
    }
    root::attach(dev.as_fd(), new_root, "dev")?;
    for (name, device) in DEVICES.iter().zip(&plan.devices) {
        let target = openat(&dev, *name, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())
            .map_err(Failure::at("find a device"))?;
        mount::attach_onto(device.as_fd(), target.as_fd())
            .map_err(Failure::at(&format!("mount /dev/{name}")))?;
    }

    // Terminals are devices: on a `nodev` mount no process could open them.
    let attributes = Attributes::MOUNT_ATTR_NOSUID | Attributes::MOUNT_ATTR_NOEXEC;
    let devpts = mount::make(
        "devpts",
        &[("ptmxmode", Some("0666")), ("mode", Some("0620")), ("max", Some("64"))],
        attributes,
    )
    .map_err(Failure::at("make /dev/pts"))?;
    root::attach(devpts.as_fd(), dev.as_fd(), "pts")?;
    let size = plan.boot.shm_bytes.to_string();
    let shm = mount::make("tmpfs", &[("mode", Some("1777")), ("size", Some(&size))], noexec)
        .map_err(Failure::at("make /dev/shm"))?;
    root::attach(shm.as_fd(), dev.as_fd(), "shm")?;
    mount::set(dev.as_fd(), Attributes::MOUNT_ATTR_RDONLY, None)
        .map_err(Failure::at("make /dev read-only"))?;
    Ok(devpts)
}
