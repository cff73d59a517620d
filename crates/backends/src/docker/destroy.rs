//! Removes every trace of a sandbox at a container engine, from any state it may be in.

use std::time::Duration;

use bollard::query_parameters::RemoveContainerOptionsBuilder;
use coracle_core::backend::Silence;
use coracle_core::{Error, Kind, Result, SandboxId};

use super::lookup::find;
use super::settled::settled;
use super::{Docker, container_name, failure, patience};
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
    if let Some(container) = find(docker, sandbox, patience::ANSWER)?.and_then(|found| found.id) {
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
    match find(docker, sandbox, patience::GLANCE).map(|found| found.and_then(|found| found.id)) {
        Ok(None) => Ok(()),
        Ok(Some(container)) => remove_container(docker, sandbox, &container),
        Err(error) if error.kind == Kind::NotAvailable => Ok(()),
        Err(error) => Err(error),
    }
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
