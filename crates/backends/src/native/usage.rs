//! What a sandbox uses, from its cgroups and the filesystem of its own files.

use std::fs::File;

use coracle_core::usage::Usage;
use coracle_core::{Result, SandboxId};
use coracle_sys::rustix::fs::fstatvfs;

use super::Native;

/// Reads what can be read. Without root there is no cgroup, and its numbers are absent.
pub fn usage(native: &Native, sandbox: &SandboxId) -> Result<Usage> {
    let cage = native.cage(sandbox)?;
    let counted = cage.group().map(coracle_sys::cgroup::Group::usage).unwrap_or_default();
    let (disk_bytes, disk_limit_bytes) = disk(native, sandbox, cage.guest_pid()).unzip();
    Ok(Usage {
        cpu_ms: counted.cpu_ms,
        memory_bytes: counted.memory_bytes,
        memory_peak_bytes: counted.memory_peak_bytes,
        processes: counted.processes,
        disk_bytes,
        disk_limit_bytes,
    })
}

/// Returns how much of the filesystem with the sandbox's files is used, and how large it is.
///
/// The root of the guest is an overlay, which reports the numbers of the filesystem that is written to. Walks no
/// path: the link leads to the root and no further.
fn disk(native: &Native, sandbox: &SandboxId, guest: Option<i32>) -> Option<(u64, u64)> {
    // Nothing bounds or counts files in a plain directory: the numbers would be the machine's.
    if native.home.has_plain_storage(sandbox) {
        return None;
    }
    let root = File::open(format!("/proc/{}/root", guest?)).ok()?;
    let numbers = fstatvfs(&root).ok()?;
    let used = numbers.f_blocks.saturating_sub(numbers.f_bfree);
    Some((used * numbers.f_frsize, numbers.f_blocks * numbers.f_frsize))
}
