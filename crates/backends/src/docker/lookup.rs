//! Looks for the container of a sandbox at its container engine.

use std::time::Duration;

use bollard::models::ContainerInspectResponse;
use coracle_core::{InstanceId, Result, SandboxId};

use super::settled::settled;
use super::{Docker, INSTANCE_LABEL, SANDBOX_LABEL, container_name, failure};
use crate::mark;
use crate::weak::{self, Wall};

/// Returns the sandbox's container, by its recorded id, else by its name. A foreign container that was given its
/// name is not ours to remove.
pub fn find(
    docker: &Docker,
    sandbox: &SandboxId,
    limit: Duration,
) -> Result<Option<ContainerInspectResponse>> {
    let keys = docker.home.container_of(sandbox).into_iter().chain([container_name(sandbox)]);
    for key in keys {
        if let Some(container) = inspect(docker, &key, limit)?
            && is_ours(docker, sandbox, &container)?
        {
            return Ok(Some(container));
        }
    }
    Ok(None)
}

fn inspect(docker: &Docker, key: &str, limit: Duration) -> Result<Option<ContainerInspectResponse>> {
    docker.client.ask_within(limit, "look for a container", |engine| async move {
        match settled(|| engine.inspect_container(key, None)).await {
            Ok(container) => Ok(Some(container)),
            Err(error) if failure::is_status(&error, 404) => Ok(None),
            Err(error) => Err(error),
        }
    })
}

/// Tells whether a container is the sandbox's. Fails if it is, but was made while the home was another instance: it
/// must not count as gone.
fn is_ours(docker: &Docker, sandbox: &SandboxId, container: &ContainerInspectResponse) -> Result<bool> {
    if said(container, SANDBOX_LABEL) != Some(sandbox.as_str()) {
        return Ok(false);
    }
    let ours = &docker.config.instance;
    match said(container, INSTANCE_LABEL).and_then(|said| said.parse::<InstanceId>().ok()) {
        Some(instance) if instance == *ours => Ok(true),
        Some(instance) if docker.home.has(sandbox) && !weak::off(Wall::Mark) => {
            Err(mark::misplaced(sandbox, &instance, ours))
        }
        Some(_) | None => Ok(false),
    }
}

fn said<'a>(container: &'a ContainerInspectResponse, label: &str) -> Option<&'a str> {
    container.config.as_ref()?.labels.as_ref()?.get(label).map(String::as_str)
}
