//! Removes every trace of a sandbox at a container engine, from any state it may be in.

use std::time::Duration;

use bollard::models::ContainerInspectResponse;
use bollard::query_parameters::RemoveContainerOptionsBuilder;
use coracle_core::backend::Silence;
use coracle_core::{Error, InstanceId, Kind, Result, SandboxId};

use super::settled::settled;
use super::{Docker, INSTANCE_LABEL, SANDBOX_LABEL, container_name, failure, patience};
use crate::mark;
use crate::weak::{self, Wall};

/// How often, and how long apart, to ask a container engine that is already removing it whether it is done.
const TRIES: u32 = 200;
const APART: Duration = Duration::from_millis(50);

/// Removes the container with its volumes, then the directory: while the container exists, a survey finds both.
pub fn destroy(docker: &Docker, sandbox: &SandboxId) -> Result<()> {
    if !docker.home.has(sandbox) && !weak::off(Wall::Rooms) {
        return destroy_belated(docker, sandbox);
    }
    docker.expect_here(sandbox)?;
    docker.expect_ours(sandbox)?;
    if let Some(container) = find(docker, sandbox, patience::ANSWER)? {
        remove_container(docker, sandbox, &container)?;
    }
    docker.crash("docker.destroy.container");
    docker.home.remove(sandbox).map_err(|error| {
        Error::internal(format!("could not remove the directory of sandbox `{sandbox}`"), error)
    })?;
    docker.crash("docker.destroy.room");
    Ok(())
}

/// Gives up on a sandbox: removes its directory, and leaves its container where the container engine does not
/// answer. Returns what is left.
pub fn forget(docker: &Docker, sandbox: &SandboxId) -> Result<Vec<String>> {
    if !docker.home.has(sandbox) {
        return Ok(Vec::new());
    }
    let container = docker.home.container_of(sandbox).unwrap_or_else(|| container_name(sandbox));
    let engine = docker.home.engine_of(sandbox).ok().flatten().unwrap_or_else(|| docker.client.shown());
    docker.home.remove(sandbox).map_err(|error| {
        Error::internal(format!("could not remove the directory of sandbox `{sandbox}`"), error)
    })?;
    Ok(vec![format!("container `{container}` of sandbox `{sandbox}` at {engine}")])
}

/// Removes what a container engine made after the sandbox was given up. Without a directory there was no container
/// at the last look, so an unreachable container engine counts as empty: a survey finds what it makes later.
fn destroy_belated(docker: &Docker, sandbox: &SandboxId) -> Result<()> {
    if !docker.home.is_used() || docker.is_noted() {
        return Ok(());
    }
    match find(docker, sandbox, patience::GLANCE) {
        Ok(None) => Ok(()),
        Ok(Some(container)) => remove_container(docker, sandbox, &container),
        Err(error) if error.kind == Kind::NotAvailable => Ok(()),
        Err(error) => Err(error),
    }
}

/// Returns the sandbox's container, by its recorded id, else by its name. A foreign container that was given its
/// name is not ours to remove.
fn find(docker: &Docker, sandbox: &SandboxId, limit: Duration) -> Result<Option<String>> {
    let keys = docker.home.container_of(sandbox).into_iter().chain([container_name(sandbox)]);
    for key in keys {
        if let Some(container) = inspect(docker, &key, limit)?
            && is_ours(docker, sandbox, &container)?
        {
            return Ok(container.id);
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

fn remove_container(docker: &Docker, sandbox: &SandboxId, container: &str) -> Result<()> {
    let gone = docker.client.ask_within(patience::REMOVAL, "remove a container", |engine| async move {
        for _ in 0..TRIES {
            let options = RemoveContainerOptionsBuilder::default().force(true).v(true).build();
            match settled(|| engine.remove_container(container, Some(options.clone()))).await {
                Ok(()) => return Ok(true),
                Err(error) if failure::is_status(&error, 404) => return Ok(true),
                // Another client, or the container engine itself, is already removing it.
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
