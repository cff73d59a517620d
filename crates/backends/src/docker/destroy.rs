//! Removing every trace of a sandbox at an engine, from any state it may be in.

use std::time::Duration;

use bollard::models::ContainerInspectResponse;
use bollard::query_parameters::RemoveContainerOptionsBuilder;
use coracle_core::{Error, Kind, Result, SandboxId};

use super::{Docker, INSTANCE_LABEL, SANDBOX_LABEL, container_name, failure, patience};

/// How often, and how long apart, an engine that is removing it already is asked whether it is done.
const TRIES: u32 = 200;
const APART: Duration = Duration::from_millis(50);

/// Removes the container with its volumes, then the directory: while the container is there, a survey finds both.
pub fn destroy(docker: &Docker, sandbox: &SandboxId) -> Result<()> {
    // Without a directory there was never a container, and an engine that is not there need not be asked.
    if !docker.home.has(sandbox) && !docker.home.is_used() {
        return Ok(());
    }
    docker.expect_here(sandbox)?;
    if let Some(container) = find(docker, sandbox)? {
        remove_container(docker, sandbox, &container)?;
    }
    docker.crash("docker.destroy.container");
    docker.home.remove(sandbox).map_err(|error| {
        Error::internal(format!("could not remove the directory of sandbox `{sandbox}`"), error)
    })?;
    docker.crash("docker.destroy.room");
    Ok(())
}

/// Returns the sandbox's container. Another that somebody has given its name is not ours to remove.
fn find(docker: &Docker, sandbox: &SandboxId) -> Result<Option<String>> {
    let name = container_name(sandbox);
    let found = docker.client.ask_within(patience::ANSWER, "look for a container", |engine| async move {
        match engine.inspect_container(&name, None).await {
            Ok(container) => Ok(Some(container)),
            Err(error) if failure::is_status(&error, 404) => Ok(None),
            Err(error) => Err(error),
        }
    })?;
    let ours = |container: &ContainerInspectResponse| {
        let labels = container.config.as_ref().and_then(|config| config.labels.as_ref());
        let says = |label: &str, value: &str| {
            labels.and_then(|labels| labels.get(label)).is_some_and(|said| said == value)
        };
        says(INSTANCE_LABEL, docker.setting.instance.as_str()) && says(SANDBOX_LABEL, sandbox.as_str())
    };
    Ok(found.filter(ours).and_then(|container| container.id))
}

fn remove_container(docker: &Docker, sandbox: &SandboxId, container: &str) -> Result<()> {
    let gone = docker.client.ask_within(patience::REMOVAL, "remove a container", |engine| async move {
        for _ in 0..TRIES {
            let options = RemoveContainerOptionsBuilder::default().force(true).v(true).build();
            match engine.remove_container(container, Some(options)).await {
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
