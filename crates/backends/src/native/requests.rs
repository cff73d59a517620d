//! Limits how much is written to a disk file at once. On a full machine, a request that finds room for only a part
//! of itself loses the rest without an error: the kernel (6.18) takes a short write to the file of a loop device for a
//! complete one, and `fsync` inside succeeds.
//!
//! A request of one page is written completely or fails. It costs bulk writes most of their speed, so we set it
//! only while the machine's disk is nearly full, and undo it afterwards: devices outlive us, and other processes
//! use them.

use std::fs;
use std::path::{Path, PathBuf};

use coracle_core::SandboxId;

use super::Native;

const BLOCK_DEVICES: &str = "/sys/block";
/// The largest request in kilobytes: the current one and the most possible.
const LARGEST: &str = "queue/max_sectors_kb";
const LARGEST_POSSIBLE: &str = "queue/max_hw_sectors_kb";
/// A page.
const SMALL: &str = "4";

/// Makes the kernel write to every disk below a directory in small requests, or in large ones again. If that fails,
/// nothing changes.
pub fn make_small(directory: &Path, small: bool) {
    // The kernel reports file names with links resolved.
    let directory = fs::canonicalize(directory).unwrap_or_else(|_| directory.to_owned());
    for device in devices_of(&directory) {
        match small {
            true => shrink(&device),
            false => restore(&device),
        }
    }
}

/// Restores large requests on the devices a sandbox is about to release.
pub fn restore_of(native: &Native, sandbox: &SandboxId) {
    let disks = native.home.disks(sandbox);
    // Look at every device only if it is likely to help: every close comes through here.
    let is_large = |device: &PathBuf| {
        device.file_name().is_some_and(|name| !is_small(&Path::new(BLOCK_DEVICES).join(name)))
    };
    if disks.first().is_some_and(|(_, device)| is_large(device)) {
        return;
    }
    let volumes = native.home.uses_of(sandbox).ok().flatten().unwrap_or_default().volumes;
    let volumes = volumes.iter().map(|name| native.home.volumes.join(name.as_str()));
    let own = disks.iter().filter_map(|(disk, _)| Some(disk.parent()?.to_owned())).take(1);
    for directory in own.chain(volumes) {
        make_small(&directory, false);
    }
}

fn shrink(device: &Path) {
    // The kernel stops the device for some milliseconds to change this, even if the value stays the same.
    if !is_small(device) {
        let _ = fs::write(device.join(LARGEST), SMALL);
    }
}

fn restore(device: &Path) {
    if is_small(device)
        && let Ok(most) = fs::read_to_string(device.join(LARGEST_POSSIBLE))
    {
        let _ = fs::write(device.join(LARGEST), most.trim_end());
    }
}

fn is_small(device: &Path) -> bool {
    fs::read_to_string(device.join(LARGEST)).is_ok_and(|size| size.trim_end() == SMALL)
}

/// Lists the loop devices whose files are below a directory.
fn devices_of(directory: &Path) -> Vec<PathBuf> {
    let devices = fs::read_dir(BLOCK_DEVICES).into_iter().flatten().flatten().map(|entry| entry.path());
    let is_ours = |device: &PathBuf| {
        let file = fs::read_to_string(device.join("loop/backing_file"));
        file.is_ok_and(|file| Path::new(file.trim_end()).starts_with(directory))
    };
    devices.filter(is_ours).collect()
}
