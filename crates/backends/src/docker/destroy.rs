//! Removing every trace of a sandbox at an engine, from any state it may be in.

use std::time::Duration;

use bollard::query_parameters::RemoveContainerOptionsBuilder;
use coracle_core::{Error, Kind, Result, SandboxId};

use super::{Docker, container_name, failure};

/// How often, and how long apart, an engine that is removing it already is asked whether it is done.
const TRIES: u32 = 200;
const APART: Duration = Duration::from_millis(50);

/// Removes the container with its volumes, then the directory: while the container is there, a survey finds both.
pub fn destroy(docker: &Docker, sandbox: &SandboxId) -> Result<()> {
    // Without a directory there was never a container, and an engine that is not there need not be asked.
    if !docker.home.has(sandbox) && !docker.home.is_used() {
        return Ok(());
    }
    remove_container(docker, sandbox)?;
    docker.crash("docker.destroy.container");
    docker.home.remove(sandbox).map_err(|error| {
        Error::internal(format!("could not remove the directory of sandbox `{sandbox}`"), error)
    })?;
    docker.crash("docker.destroy.room");
    Ok(())
}

fn remove_container(docker: &Docker, sandbox: &SandboxId) -> Result<()> {
    let name = container_name(sandbox);
    let gone = docker.client.ask("remove a container", |engine| async move {
        for _ in 0..TRIES {
            let options = RemoveContainerOptionsBuilder::default().force(true).v(true).build();
            match engine.remove_container(&name, Some(options)).await {
                Ok(()) => return Ok(true),
                Err(error) if failure::is_status(&error, 404) => return Ok(true),
                // Somebody, or the engine itself, is at it.
                Err(error) if failure::is_status(&error, 409) => tokio::time::sleep(APART).await,
                Err(error) => return Err(error),
            }
        }
        Ok(false)
    })?;
    match gone {
        true => Ok(()),
        false => Err(Error::new(
            Kind::Conflict,
            format!("the engine does not let go of the container of `{sandbox}`"),
        )),
    }
}
