//! Finds what sandboxes of this instance have at the container engine and in the home.

use std::collections::{BTreeMap, HashMap};

use bollard::models::{ContainerStateStatusEnum, ContainerSummary, ContainerSummaryStateEnum};
use bollard::query_parameters::ListContainersOptionsBuilder;
use coracle_core::backend::{Found, GuestEnd};
use coracle_core::{Error, Result, SandboxId, Timestamp};
use coracle_wire::End;

use super::settled::settled;
use super::{Docker, INSTANCE_LABEL, SANDBOX_LABEL, container_name, patience};

/// Lists them, by their containers and their directories. A home that never used the container engine has none
/// there, and does not ask it.
pub fn survey(docker: &Docker) -> Result<Vec<Found>> {
    let sandboxes = docker
        .home
        .list()
        .map_err(|error| Error::internal("could not list the sandboxes of this home", error))?;
    if sandboxes.is_empty() && !docker.home.is_used() {
        return Ok(Vec::new());
    }
    let mut found = BTreeMap::new();
    for Container { sandbox, alive, whole } in containers(docker)? {
        // Without its directory it cannot wake: what its next guest needs is noted there.
        let files = whole && sandboxes.contains(&sandbox);
        let known = entry(&mut found, &sandbox, "container");
        (known.alive, known.files) = (known.alive || alive, known.files || files);
    }
    docker.note_answer();
    for sandbox in &sandboxes {
        // We cannot say that a sandbox on another container engine, or of another instance, is gone.
        let elsewhere = docker.expect_here(sandbox).is_err() || docker.expect_ours(sandbox).is_err();
        entry(&mut found, sandbox, "directory").elsewhere = elsewhere;
    }
    let mut found: Vec<_> = found.into_values().collect();
    // How the guest of one at rest ended was asked before.
    let unexplained = |found: &&mut Found| !found.alive && !docker.home.is_at_rest(&found.sandbox);
    for ended in found.iter_mut().filter(unexplained) {
        ended.end = guest_end(docker, &ended.sandbox);
    }
    Ok(found)
}

fn entry<'a>(found: &'a mut BTreeMap<SandboxId, Found>, sandbox: &SandboxId, object: &str) -> &'a mut Found {
    let known = found.entry(sandbox.clone()).or_insert_with(|| Found {
        sandbox: sandbox.clone(),
        alive: false,
        elsewhere: false,
        end: None,
        files: false,
        objects: Vec::new(),
    });
    known.objects.push(object.to_owned());
    known
}

/// Returns how a guest ended that is gone, by the exit code the container engine keeps: it is the first process of
/// its container, so no command can signal it, and a kill from outside leaves another code.
pub fn guest_end(docker: &Docker, sandbox: &SandboxId) -> Option<GuestEnd> {
    let container = docker.home.container_of(sandbox)?;
    let inspected = docker.client.ask_within(patience::ANSWER, "look at a container", |engine| async move {
        settled(|| engine.inspect_container(&container, None)).await
    });
    let state = inspected.ok()?.state?;
    let exited = state.status == Some(ContainerStateStatusEnum::EXITED) && !state.oom_killed.unwrap_or(false);
    match End::from_exit_code(state.exit_code.filter(|_| exited)?)? {
        End::Idle | End::Asleep => {
            Some(GuestEnd::Idle { ended: finished(docker, state.finished_at.as_deref()) })
        }
        End::Untied => Some(GuestEnd::Untied),
    }
}

/// Returns when a container ended: now, if the container engine's time cannot be read. The exit code proves in any
/// case that it was idle.
fn finished(docker: &Docker, at: Option<&str>) -> Timestamp {
    at.and_then(|at| at.parse().ok()).unwrap_or_else(|| (docker.config.clock)())
}

/// The container of a sandbox.
struct Container {
    sandbox: SandboxId,
    alive: bool,
    /// It has all its files.
    whole: bool,
}

fn containers(docker: &Docker) -> Result<Vec<Container>> {
    let label = format!("{INSTANCE_LABEL}={}", docker.config.instance);
    let filters = HashMap::from([("label", vec![label])]);
    let options = ListContainersOptionsBuilder::default().all(true).filters(&filters).build();
    let listed = docker.client.ask_within(patience::ANSWER, "list containers", |engine| async move {
        settled(|| engine.list_containers(Some(options.clone()))).await
    })?;
    Ok(listed.iter().filter_map(|container| ours(docker, container)).collect())
}

/// Returns the sandbox that a container is, if it is one. An image can carry our labels, but it cannot choose the
/// container's name, nor have the id recorded when the container was made.
fn ours(docker: &Docker, container: &ContainerSummary) -> Option<Container> {
    let sandbox: SandboxId = container.labels.as_ref()?.get(SANDBOX_LABEL)?.parse().ok()?;
    let name = container_name(&sandbox);
    let named = container.names.iter().flatten().any(|found| found.trim_start_matches('/') == name);
    let noted = docker.home.container_of(&sandbox);
    let known = container.id.is_some() && container.id == noted;
    if let (true, None, Some(id)) = (named && docker.home.has(&sandbox), noted, &container.id) {
        // A sandbox of an earlier version. Without the record it is found by its name alone, as before.
        let _ = docker.home.note_container(&sandbox, id);
    }
    // Only these states say that it has no process. A container engine may have states we do not know.
    let (over, whole) = match container.state {
        Some(ContainerSummaryStateEnum::CREATED | ContainerSummaryStateEnum::EXITED) => (true, true),
        Some(ContainerSummaryStateEnum::DEAD | ContainerSummaryStateEnum::REMOVING) => (true, false),
        _ => (false, true),
    };
    (named || known).then_some(Container { sandbox, alive: !over, whole })
}
