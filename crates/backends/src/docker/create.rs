//! Makes a sandbox: its directory in the home, its container, its guest.

use std::time::Duration;

use bollard::container::LogOutput;
use bollard::query_parameters::{AttachContainerOptionsBuilder, CreateContainerOptionsBuilder};
use coracle_core::backend::{Created, Order, Placement};
use coracle_core::{Error, Kind, Result, fit};
use coracle_wire::{Boot, Decoder, GuestReport, Report};
use futures_util::{Stream, StreamExt};
use tokio::io::AsyncWriteExt;

use super::connect::Reached;
use super::container::{self, Way};
use super::flavour::Flavour;
use super::image::{self, Root};
use super::{Docker, connect, container_name, destroy, install, patience, probe, volumes};
use crate::boot::{self, Known};
use crate::filter;
use crate::weak::{self, Wall};

/// A guest that has not come up by then never will. Container engines on a busy machine take seconds.
const BOOT_TIME: Duration = Duration::from_secs(60);

/// Makes the sandbox. On error nothing of it is left.
pub fn create(docker: &Docker, order: &Order<'_>) -> Result<Created> {
    fit::check(&docker.name, &probe::expect(docker, order.spec)?, order.spec)?;
    let root = image::find(docker, order.spec)?;
    let flavour = install::ensure(docker)?;
    let made = make(docker, order, &root, flavour).or_else(|error| match is_without_guest(&error) {
        // The volume was removed, or another container engine has this address now.
        true => {
            destroy::destroy(docker, order.sandbox)?;
            docker.home.forget_installed(&docker.client.shown());
            let flavour = install::ensure(docker)?;
            make(docker, order, &root, flavour)
        }
        false => Err(error),
    });
    made.map_err(|error| {
        let error = start_failure(order, error);
        match destroy::destroy(docker, order.sandbox) {
            Ok(()) => error,
            Err(left) => error.detail("left_behind", left.chain()),
        }
    })
}

/// Keeps an error of a kind the caller can act on; turns any other into a failed start.
fn start_failure(order: &Order<'_>, error: Error) -> Error {
    match error.kind {
        Kind::NotAvailable | Kind::ImageNotFound | Kind::Unsupported | Kind::Invalid => error,
        _ => Error::new(
            Kind::StartFailed,
            format!("could not make a container for sandbox `{}`", order.sandbox),
        )
        .hint("run `coracle doctor` to see what the engine offers")
        .caused_by(error),
    }
}

fn make(docker: &Docker, order: &Order<'_>, root: &Root, flavour: Flavour) -> Result<Created> {
    let run = docker
        .home
        .make_dir(order.sandbox, &docker.client.shown(), &docker.config.instance)
        .map_err(|error| Error::internal("could not make the sandbox's directory", error))?;
    docker.crash("docker.create.room");
    let way = if connect::shares_files(docker) { Way::Socket(&run) } else { Way::Program };
    let container = match make_container(docker, order, root, flavour, way) {
        // The container engine does not see our files: it is on another machine, or we are in a container
        // ourselves.
        Err(error) if matches!(way, Way::Socket(_)) && is_about_mount(&error) => {
            make_container(docker, order, root, flavour, Way::Program)?
        }
        made => made?,
    };
    docker
        .home
        .note_container(order.sandbox, &container)
        .map_err(|error| Error::internal("could not note the sandbox's container", error))?;
    docker.crash("docker.create.container");
    let in_use = volumes::used_by_others(docker, order)?;
    let plan = Boot {
        contained: true,
        shared_users_filter: (!weak::off(Wall::Watches)).then(|| filter::WATCHES.to_vec()),
        ..boot::plan(order, Known { image: &root.config, env: &root.env, in_use: &in_use })
    };
    let capabilities = plan.capabilities;
    let report = start(docker, &container, &plan)?;
    docker.crash("docker.create.ready");
    boot::expect_known(order.spec, report.knows_user)?;
    let profile = probe::observe(docker, order.spec, &report, capabilities)?;
    let reached = connect::choose(docker, order.sandbox);
    Ok(Created { placement: place(docker, &container, reached)?, profile, image: root.config.clone() })
}

/// Records when the container was started, if only the container engine can say later whether the guest is still
/// the same.
fn place(docker: &Docker, container: &str, reached: Reached) -> Result<Placement> {
    let started = match reached {
        Reached::Socket => None,
        Reached::Program => connect::started(docker, container)?,
    };
    Ok(Placement(serde_json::json!({
        "container": container, "engine": docker.client.shown(), "by": reached.name(), "started": started
    })))
}

/// Tells whether the container engine could not find the guest's program, or even the directory its volume has
/// beside it.
fn is_without_guest(error: &Error) -> bool {
    let words = error.chain();
    let absent =
        ["no such file or directory", "read-only file system"].iter().any(|sign| words.contains(sign));
    words.contains(container::PROGRAM_DIRECTORY) && absent
}

fn is_about_mount(error: &Error) -> bool {
    // Docker's words and Podman's.
    ["bind source path does not exist", "statfs"].iter().any(|words| error.chain().contains(words))
}

fn make_container(
    docker: &Docker,
    order: &Order<'_>,
    root: &Root,
    flavour: Flavour,
    way: Way<'_>,
) -> Result<String> {
    let body = container::describe(docker, order, root, flavour, way)?;
    let name = CreateContainerOptionsBuilder::default().name(&container_name(order.sandbox)).build();
    let created = docker.client.ask_within(patience::MAKE, "make a container", |engine| async move {
        engine.create_container(Some(name), body).await
    })?;
    Ok(created.id)
}

/// Starts the container and sends its guest the plan.
fn start(docker: &Docker, container: &str, plan: &Boot) -> Result<GuestReport> {
    let frame = coracle_wire::encode(plan)
        .map_err(|error| Error::internal("could not write the boot plan", error))?;
    let attach = AttachContainerOptionsBuilder::default().stdin(true).stdout(true).stream(true).build();
    let report = docker.client.ask("start the container", |engine| async move {
        let mut attached = engine.attach_container(container, Some(attach)).await?;
        engine.start_container(container, None).await?;
        (docker.config.crash)("docker.create.started");
        let converse = async {
            attached.input.write_all(&frame).await?;
            attached.input.flush().await?;
            Ok(hear(&mut attached.output).await)
        };
        tokio::time::timeout(BOOT_TIME, converse)
            .await
            .unwrap_or_else(|_| Ok(Err("it took too long".to_owned())))
    })?;
    report.map_err(|words| Error::new(Kind::StartFailed, format!("the guest did not come up: {words}")))
}

/// Waits for the guest's answer.
async fn hear(
    output: &mut (impl Stream<Item = Result<LogOutput, bollard::errors::Error>> + Unpin),
) -> Report {
    let mut decoder = Decoder::default();
    while let Some(piece) = output.next().await {
        match piece.map_err(|error| error.to_string())? {
            LogOutput::StdOut { message } | LogOutput::Console { message } => decoder.push(&message),
            LogOutput::StdErr { .. } | LogOutput::StdIn { .. } => {}
        }
        if let Some(payload) = decoder.next_payload().map_err(|error| error.to_string())? {
            return coracle_wire::decode::<Report>(payload).map_err(|error| error.to_string())?;
        }
    }
    Err("its process ended at once".to_owned())
}
