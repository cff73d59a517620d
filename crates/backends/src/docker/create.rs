//! Makes a sandbox: its directory in the home, its container, its guest.

use bollard::query_parameters::CreateContainerOptionsBuilder;
use coracle_core::backend::{Created, Order};
use coracle_core::{Error, Kind, Result, fit};
use coracle_wire::Boot;

use super::container::{self, Way};
use super::flavour::Flavour;
use super::image::{self, Root};
use super::start::{self, Moments};
use super::{Docker, connect, container_name, destroy, install, patience, probe, volumes};
use crate::boot::{self, Known};
use crate::filter;
use crate::weak::{self, Wall};

/// The moments of a first start.
const MOMENTS: Moments = Moments { attached: "docker.create.attached", started: "docker.create.started" };

/// Makes the sandbox. On error nothing of it is left.
pub fn create(docker: &Docker, order: &Order<'_>) -> Result<Created> {
    fit::check(&docker.name, &probe::expect(docker, order.spec)?, order.spec)?;
    let root = image::find(docker, order.spec)?;
    let flavour = install::ensure(docker)?;
    let made = make(docker, order, &root, flavour).or_else(|error| match start::is_without_guest(&error) {
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
    docker
        .home
        .note_root(order.sandbox, root)
        .map_err(|error| Error::internal("could not note the sandbox's image", error))?;
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
    let plan = plan(order, Known { image: &root.config, env: &root.env, in_use: &in_use });
    let capabilities = plan.capabilities;
    let report = start::start(docker, &container, &plan, MOMENTS)?;
    docker.crash("docker.create.ready");
    boot::expect_known(order.spec, report.knows_user)?;
    let profile = probe::observe(docker, order.spec, &report, capabilities)?;
    let placement = start::place(docker, order.sandbox, &container)?;
    Ok(Created { placement, profile, image: root.config.clone() })
}

/// Returns the plan of a guest in a container.
pub fn plan(order: &Order<'_>, known: Known<'_>) -> Boot {
    Boot {
        contained: true,
        shared_users_filter: (!weak::off(Wall::Watches)).then(|| filter::WATCHES.to_vec()),
        ..boot::plan(order, known)
    }
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
