//! Removes every trace of a sandbox, from any state it may be in.

use std::time::Duration;

use coracle_core::{Error, Result, SandboxId};

use super::cage::Cage;
use super::{Native, disk, elsewhere, requests};

/// Killed processes disappear at once, unless one is in the middle of writing to a slow disk.
const PATIENCE: Duration = Duration::from_secs(10);

/// Drops what the kernel still holds of its disk in memory, kills its processes, then removes its cgroup and its
/// directory. In this order: while a process is left, it may write, and while the cgroup exists, a survey finds it.
pub fn destroy(native: &Native, sandbox: &SandboxId) -> Result<()> {
    let crash = native.config.crash;
    let failed = |what: &str| {
        let message = format!("could not {what} of sandbox `{sandbox}`");
        move |error: std::io::Error| Error::internal(message, error)
    };
    elsewhere::expect_ours(native, sandbox)?;
    let cage = native.cage(sandbox)?;
    requests::restore_of(native, sandbox);
    for (disk, device) in native.home.disks(sandbox) {
        // A disk that other sandboxes start from is not ours to end.
        if !disk::is_shared(&disk).unwrap_or(true) {
            // If this fails, the end of the last process takes a little longer.
            let _ = disk::abandon(&disk, &device);
        }
    }
    kill(native, sandbox, &cage).map_err(failed("end the processes"))?;
    crash("native.destroy.killed");
    cage.remove().map_err(failed("remove the cgroup"))?;
    crash("native.destroy.cgroup");
    native.home.remove(sandbox).map_err(failed("remove the directory"))?;
    crash("native.destroy.directories");
    Ok(())
}

/// Kills every process of a sandbox, and reaps its guest if this process started it.
pub fn kill(native: &Native, sandbox: &SandboxId, cage: &Cage<'_>) -> std::io::Result<()> {
    cage.kill(PATIENCE)?;
    if let Some(guest) = native.children().remove(sandbox).map(|child| child.guest) {
        coracle_sys::signal::reap_descriptor(&guest);
    }
    Ok(())
}
