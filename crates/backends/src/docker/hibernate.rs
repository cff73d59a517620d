//! Sleep in place: the container ends and stays with all its files. Started again, it has a new guest.
//!
//! What a container engine has of the files in memory is its own and its kernel's to write: nothing here makes them survive
//! a power cut.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use bollard::errors::Error as Refusal;
use bollard::models::{ContainerInspectResponse, ContainerStateStatusEnum};
use bollard::query_parameters::{KillContainerOptionsBuilder, WaitContainerOptionsBuilder};
use coracle_core::backend::{Created, Order};
use coracle_core::hibernation::Hibernation;
use coracle_core::mount::Source;
use coracle_core::{Error, Kind, Result, SandboxId, Spec, VolumeName};
use coracle_wire::{Boot, GuestReport};
use futures_util::StreamExt;

use super::container::real_path;
use super::image::Root;
use super::settled::is_between;
use super::start::{self, Moments};
use super::{Docker, create, failure, install, lookup, patience, probe};
use crate::boot::Known;

/// How long the processes of a container may take to end once they are killed. Podman notes the end in another process,
/// which a busy machine may delay.
const ENDING: Duration = Duration::from_secs(90);
/// The pauses between two looks grow from the first to the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// The moments of a wake.
const MOMENTS: Moments = Moments { attached: "docker.wake.attached", started: "docker.wake.started" };

impl Hibernation for Docker {
    /// A container engine has all files of a container on its disk.
    fn expect_keeping(&self, _spec: &Spec) -> Result<()> {
        Ok(())
    }

    fn has_files(&self, sandbox: &SandboxId) -> Result<bool> {
        if !self.home.has(sandbox) {
            return Ok(false);
        }
        self.expect_here(sandbox)?;
        self.expect_ours(sandbox)?;
        find(self, sandbox).map(|found| found.is_some())
    }

    fn rest(&self, sandbox: &SandboxId) -> Result<Option<u64>> {
        rest(self, sandbox)
    }

    fn wake(&self, order: &Order<'_>) -> Result<Created> {
        wake(self, order).map_err(|error| match rest(self, order.sandbox) {
            Ok(_) => error,
            Err(left) => error.detail("left_behind", left.chain()),
        })
    }
}

/// Returns the container with the files of a sandbox; `None` if there is none, or not all of it.
fn find(docker: &Docker, sandbox: &SandboxId) -> Result<Option<ContainerInspectResponse>> {
    let whole = |found: &ContainerInspectResponse| {
        let status = found.state.as_ref().and_then(|state| state.status);
        !matches!(status, Some(ContainerStateStatusEnum::DEAD | ContainerStateStatusEnum::REMOVING))
    };
    Ok(lookup::find(docker, sandbox, patience::ANSWER)?.filter(whole))
}

/// Finds the container that is to rest or to wake, and its id.
fn expect(docker: &Docker, sandbox: &SandboxId) -> Result<(String, ContainerInspectResponse)> {
    let gone = || {
        Error::new(Kind::NotFound, format!("the files of sandbox `{sandbox}` are not there"))
            .detail("sandbox_id", sandbox.as_str())
    };
    if !docker.home.has(sandbox) {
        return Err(gone());
    }
    docker.expect_here(sandbox)?;
    docker.expect_ours(sandbox)?;
    let found = find(docker, sandbox)?.ok_or_else(gone)?;
    Ok((found.id.clone().ok_or_else(gone)?, found))
}

fn rest(docker: &Docker, sandbox: &SandboxId) -> Result<Option<u64>> {
    let (container, _) = expect(docker, sandbox)?;
    end(docker, sandbox, &container)?;
    docker.crash("docker.rest.ended");
    let noted = docker.home.clear_socket(sandbox).and_then(|()| docker.home.note_rest(sandbox, true));
    noted
        .map_err(|error| Error::internal(format!("could not note that sandbox `{sandbox}` rests"), error))?;
    docker.crash("docker.rest.noted");
    // The container engine counts its files only by reading all of them.
    Ok(None)
}

/// Kills the container's first process, and waits until the container engine has seen that it ended. Asking it to stop would
/// have it wait ten seconds for a guest that is not asked that way.
fn end(docker: &Docker, sandbox: &SandboxId, container: &str) -> Result<()> {
    let ended = docker.client.ask_within(patience::REMOVAL, "end a container", |engine| async move {
        let deadline = Instant::now() + ENDING;
        let mut pause = FIRST_PAUSE;
        while !is_over(&engine, container).await? {
            if Instant::now() > deadline {
                return Ok(false);
            }
            kill(&engine, container).await?;
            // A hint alone: Podman calls a container ended before it has cleaned up, and only then can it be started again.
            let options = WaitContainerOptionsBuilder::default().condition("not-running").build();
            let mut end = std::pin::pin!(engine.wait_container(container, Some(options)));
            let _ = tokio::time::timeout(pause, end.next()).await;
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
        Ok(true)
    })?;
    match ended {
        true => Ok(()),
        false => Err(Error::new(
            Kind::NotAvailable,
            format!("the container of sandbox `{sandbox}` does not end, although it was killed"),
        )
        .hint("see whether the engine is overloaded; `coracle gc` tries again")),
    }
}

async fn is_over(engine: &bollard::Docker, container: &str) -> Result<bool, Refusal> {
    let status = match engine.inspect_container(container, None).await {
        Err(error) if is_between(&error) => return Ok(false),
        found => found?.state.and_then(|state| state.status),
    };
    Ok(matches!(
        status,
        Some(
            ContainerStateStatusEnum::CREATED
                | ContainerStateStatusEnum::EXITED
                | ContainerStateStatusEnum::DEAD
        )
    ))
}

/// Kills it, also if it is paused at the container engine. A refusal says that it has ended, or is about to: the next look
/// tells.
async fn kill(engine: &bollard::Docker, container: &str) -> Result<(), Refusal> {
    let options = || Some(KillContainerOptionsBuilder::default().signal("KILL").build());
    let refused = |answer: Result<(), Refusal>| match answer {
        Err(Refusal::DockerResponseServerError { .. }) => Ok(()),
        answer => answer,
    };
    match engine.kill_container(container, options()).await {
        Err(error) if failure::is_about_pause(&error) => {
            refused(engine.unpause_container(container).await)?;
            refused(engine.kill_container(container, options()).await)
        }
        answer => refused(answer),
    }
}

fn wake(docker: &Docker, order: &Order<'_>) -> Result<Created> {
    let (container, found) = expect(docker, order.sandbox)?;
    let unread = |error| {
        let what = format!("could not read what the container of sandbox `{}` was made from", order.sandbox);
        Error::internal(what, error)
    };
    let root = docker.home.root_of(order.sandbox).map_err(unread)?;
    expect_same_directories(docker, order.spec, &found)?;
    // A guest that was started meanwhile, by a person at the container engine perhaps, has no plan and no secret.
    end(docker, order.sandbox, &container)?;
    let cleared =
        docker.home.clear_socket(order.sandbox).and_then(|()| docker.home.note_rest(order.sandbox, false));
    cleared.map_err(|error| Error::internal("could not prepare the sandbox's directory", error))?;
    let plan = plan(order, &root);
    let report = start_again(docker, order.sandbox, &container, &plan)?;
    docker.crash("docker.wake.ready");
    // Its commands may have removed its user; the files are kept all the same.
    let profile = probe::observe(docker, order.spec, &report, plan.capabilities)?;
    let placement = start::place(docker, order.sandbox, &container)?;
    Ok(Created { placement, profile, image: root.config })
}

fn plan(order: &Order<'_>, root: &Root) -> Boot {
    // Its first guest gave them to the user of commands. Others may use them by now.
    let volume = |mount: &coracle_core::mount::Mount| match &mount.source {
        Source::Volume(name) => Some(name.clone()),
        Source::Directory(_) => None,
    };
    let in_use: BTreeSet<VolumeName> = order.spec.mounts.iter().filter_map(volume).collect();
    let known = Known { image: &root.config, env: &root.env, in_use: &in_use };
    Boot { wakes: true, ..create::plan(order, known) }
}

/// Starts the guest. If that fails, once more, after bringing its program again if the container engine has lost it.
fn start_again(docker: &Docker, sandbox: &SandboxId, container: &str, plan: &Boot) -> Result<GuestReport> {
    start::start(docker, container, plan, MOMENTS).or_else(|error| {
        if start::is_without_guest(&error) {
            docker.home.forget_installed(&docker.client.shown());
            install::ensure(docker)?;
        }
        // A process that was killed while it was attached to the stopped container has left a closed input: container engines
        // give a container another one only when it ends. Podman reports that as a broken pipe, Docker as a failed start.
        end(docker, sandbox, container)?;
        start::start(docker, container, plan, MOMENTS)
    })
}

/// Refuses to start a container whose directories of the caller's are no longer what they were: the container engine
/// resolves their paths again, and another sandbox may have put a link in one's place.
fn expect_same_directories(docker: &Docker, spec: &Spec, found: &ContainerInspectResponse) -> Result<()> {
    for mount in &spec.mounts {
        let Source::Directory(path) = &mount.source else { continue };
        let now = real_path(docker, spec, path, mount.within.as_deref())?;
        let mut mounted = found.mounts.iter().flatten();
        let then = mounted.find(|known| known.destination.as_ref() == Some(&mount.target));
        if then.and_then(|known| known.source.as_ref()) != Some(&now) {
            let what = format!("the directory `{path}` is not the one that is mounted at `{}`", mount.target);
            return Err(Error::new(Kind::Conflict, what)
                .hint("put it back where it was when the sandbox was opened")
                .detail("path", path.as_str()));
        }
    }
    Ok(())
}
