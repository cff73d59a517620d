//! Removes what this instance has at a container engine beside its sandboxes: volumes, and the guest's program.

use bollard::query_parameters::RemoveVolumeOptions;
use coracle_core::volume::Volumes;
use coracle_core::{Kind, Result};

use super::{Docker, failure, install, patience, tunnel};

/// Removes it and returns how many volumes there were. Does not ask a container engine that this home never used.
pub fn purge(docker: &Docker) -> Result<usize> {
    let address = docker.client.shown();
    if !docker.home.is_used() {
        return Ok(0);
    }
    let volumes = docker.list()?;
    for volume in &volumes {
        match docker.remove(&volume.name) {
            Err(error) if error.kind != Kind::NotFound => return Err(error),
            _ => {}
        }
    }
    install::clear(docker)?;
    remove_program(docker)?;
    docker.home.forget_installed(&address);
    tunnel::close_all(&tunnel::directory(&docker.config))?;
    Ok(volumes.len())
}

/// Every instance that runs this build has the same program: while a sandbox of another instance uses it, the
/// container engine keeps it, and an instance that misses it later installs it again.
fn remove_program(docker: &Docker) -> Result<()> {
    let volume = install::volume();
    docker.client.ask_within(patience::REMOVAL, "remove the guest's program", |engine| async move {
        match engine.remove_volume(&volume, None::<RemoveVolumeOptions>).await {
            Err(error) if failure::is_status(&error, 404) || failure::is_status(&error, 409) => Ok(()),
            removed => removed,
        }
    })
}
