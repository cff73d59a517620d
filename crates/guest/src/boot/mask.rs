//! Hides the parts of `/proc` that speak of the host, and makes writable ones read-only.

use std::io;
use std::os::fd::AsFd;

use coracle_sys::mount::{self, Attributes};
use coracle_sys::rustix::fs::{CWD, Mode, OFlags, openat};
use coracle_sys::rustix::io::Errno;

use super::Failure;
use crate::weak::{self, Wall};

/// Files that read as empty.
const EMPTY_FILES: [&str; 14] = [
    "cmdline",
    "config.gz",
    "diskstats",
    "interrupts",
    "iomem",
    "ioports",
    "kcore",
    "key-users",
    "keys",
    "kmsg",
    "latency_stats",
    "partitions",
    "sched_debug",
    "timer_list",
];
/// Directories that are empty.
const EMPTY_DIRECTORIES: [&str; 3] = ["acpi", "asound", "scsi"];
/// What commands may read but not write.
const READ_ONLY: [&str; 5] = ["bus", "fs", "irq", "sys", "sysrq-trigger"];

/// Limits on kernel tables that all sandboxes of the machine share.
const TABLES: [(&str, &str); 2] =
    [("/proc/sys/user/max_inotify_instances", "32"), ("/proc/sys/user/max_inotify_watches", "65536")];

/// Applies the covers. The guest has just mounted `/proc` itself, so its names are the kernel's.
pub fn apply(shm_bytes: u64) -> Result<(), Failure> {
    // In the machine's own user namespace these settings would be the machine's.
    if !weak::off(Wall::Nesting) && !weak::off(Wall::UserNamespace) {
        // In a user namespace of its own a command would hold every capability. The seccomp filter forbids it too.
        std::fs::write("/proc/sys/user/max_user_namespaces", "0")
            .map_err(Failure::at("forbid user namespaces"))?;
        for (name, value) in TABLES {
            // Some kernels do not let a namespace lower all of these.
            let _ = std::fs::write(name, value);
        }
    }
    // A shared-memory segment stays when every process attached to it is killed, so bound their sum; see the size
    // of `/dev/shm`.
    if !weak::off(Wall::IpcNamespace) {
        let _ = std::fs::write("/proc/sys/kernel/shmall", (shm_bytes / 4096).to_string());
    }
    if weak::off(Wall::Masks) {
        return Ok(());
    }
    let empty = mount::make(
        "tmpfs",
        &[("mode", Some("0555")), ("size", Some("4k"))],
        mount::plain() | Attributes::MOUNT_ATTR_RDONLY,
    )
    .map_err(Failure::at("make an empty directory"))?;
    for name in EMPTY_FILES {
        let copy = || {
            let null = if weak::off(Wall::Covers) { "/etc/null" } else { "/dev/null" };
            let device = openat(CWD, null, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
            mount::copy_from(device.as_fd())
        };
        cover(name, copy)?;
    }
    for name in EMPTY_DIRECTORIES {
        cover(name, || mount::copy_from(empty.as_fd()))?;
    }
    for name in READ_ONLY {
        cover(name, || {
            let copy = mount::copy(format!("/proc/{name}").as_ref())?;
            mount::set(
                copy.as_fd(),
                mount::plain() | Attributes::MOUNT_ATTR_RDONLY | Attributes::MOUNT_ATTR_NOEXEC,
                None,
            )?;
            Ok(copy)
        })?;
    }
    Ok(())
}

/// Mounts what `make` returns over `/proc/<name>`, if this kernel has that name.
fn cover(name: &str, make: impl FnOnce() -> io::Result<std::os::fd::OwnedFd>) -> Result<(), Failure> {
    let path = format!("/proc/{name}");
    match openat(CWD, &path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()) {
        Err(Errno::NOENT) => return Ok(()),
        Err(error) => return Err(Failure::at(&format!("find {path}"))(error)),
        Ok(_) => {}
    }
    let layer = make().map_err(Failure::at(&format!("make a cover for {path}")))?;
    mount::attach(layer.as_fd(), &path).map_err(Failure::at(&format!("cover {path}")))
}
