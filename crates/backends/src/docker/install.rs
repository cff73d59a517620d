//! Installs the guest's program at a container engine: in a volume named by its content, which every sandbox there
//! mounts read-only.
//!
//! It gets there in an image that holds nothing else, which is run once. So we never copy anything into a container
//! that runs foreign code, and the container engine need not see any file of the host.

use std::io;

use bollard::models::{ContainerCreateBody, HostConfig, Mount};
use bollard::query_parameters::{
    CreateContainerOptionsBuilder, CreateImageOptionsBuilder, RemoveContainerOptionsBuilder,
    RemoveImageOptionsBuilder,
};
use coracle_core::{Error, Kind, Result};
use futures_util::StreamExt;

use super::flavour::Flavour;
use super::{Docker, container, failure, patience};
use crate::program::{FINGERPRINT, GUEST};
use crate::weak::{self, Wall};

/// The longest message of the installer.
const WORDS_MAX: usize = 4096;
const INTO_VOLUME: &str = "put the guest's program into a volume";

/// Installs the program, unless it is known to be there. Returns the kind of the container engine.
pub fn ensure(docker: &Docker) -> Result<Flavour> {
    let address = docker.client.shown();
    if let Some(flavour) = docker.home.installed(&address) {
        return Ok(flavour);
    }
    let unnoted = |error| Error::internal("could not note that the guest's program is installed", error);
    let mut right = docker.home.installing(&address).map_err(unnoted)?;
    // The previous holder of the lock may have installed it.
    if let Some(flavour) = docker.home.installed(&address) {
        return Ok(flavour);
    }
    let version =
        docker.client.ask("ask the engine what it is", |engine| async move { engine.version().await })?;
    let flavour = Flavour::of(&version);
    right.begin().map_err(unnoted)?;
    // Another instance that installs at the same container engine may have interfered: their images are identical.
    install(docker, flavour).or_else(|_| install(docker, flavour))?;
    docker.home.note_installed(&address, flavour).map_err(unnoted)?;
    right.end().map_err(unnoted)?;
    Ok(flavour)
}

/// Removes what a killed installer left. Asks the container engine only if there was one.
pub fn tidy(docker: &Docker) -> Result<()> {
    let unread = |error| Error::internal("could not see who installs the guest's program", error);
    match docker.home.abandoned(&docker.client.shown()).map_err(unread)? {
        Some(mut right) => {
            clear(docker)?;
            right.end().map_err(unread)
        }
        None => Ok(()),
    }
}

/// Returns the volume as sandboxes mount it.
pub fn mount() -> Mount {
    let read_only = !weak::off(Wall::Layers);
    container::program_volume(&volume(), read_only, container::PROGRAM_DIRECTORY)
}

pub fn volume() -> String {
    format!("coracle-guest-{FINGERPRINT}")
}

/// A name of this instance's own: other instances may be installing, too.
fn own_name(docker: &Docker) -> String {
    format!("coracle-install-{}", docker.config.instance).to_lowercase()
}

fn install(docker: &Docker, flavour: Flavour) -> Result<()> {
    // An image that an earlier installation left would stay without a name when ours takes it.
    clear(docker)?;
    let image = image(docker);
    bring_image(docker, &image)?;
    docker.crash("docker.install.image");
    run(docker, flavour, &image)?;
    clear(docker)
}

fn image(docker: &Docker) -> String {
    format!("{}:{FINGERPRINT}", own_name(docker))
}

/// Removes the container and the image of this instance's installation; the volume stays. Removes the image by its
/// name: another instance's may be the same.
pub fn clear(docker: &Docker) -> Result<()> {
    remove_container(docker)?;
    let (image, options) = (image(docker), RemoveImageOptionsBuilder::default().build());
    docker.client.ask_within(patience::REMOVAL, "remove the image of the guest", |engine| async move {
        match engine.remove_image(&image, Some(options), None).await {
            Err(error) if failure::is_status(&error, 404) => Ok(()),
            removed => removed.map(drop),
        }
    })
}

fn bring_image(docker: &Docker, image: &str) -> Result<()> {
    let archive = archive().map_err(|error| Error::internal("could not pack the guest's program", error))?;
    let options = CreateImageOptionsBuilder::default().from_src("-").repo(image).build();
    docker.client.ask_within(patience::UPLOAD, "bring the guest's program", |engine| async move {
        let body = bollard::body_full(archive.into());
        let mut steps = std::pin::pin!(engine.create_image(Some(options), Some(body), None));
        while let Some(step) = steps.next().await {
            step?;
        }
        Ok(())
    })
}

/// Returns a root with the program, and a directory to mount the volume on.
fn archive() -> io::Result<Vec<u8>> {
    let mut archive = tar::Builder::new(Vec::new());
    let mut header = tar::Header::new_ustar();
    header.set_size(GUEST.len() as u64);
    header.set_mode(0o555);
    archive.append_data(&mut header, "guest", GUEST)?;
    let mut header = tar::Header::new_ustar();
    header.set_entry_type(tar::EntryType::Directory);
    header.set_size(0);
    header.set_mode(0o755);
    archive.append_data(&mut header, "target", io::empty())?;
    archive.into_inner()
}

/// Has the program copy itself into the volume.
fn run(docker: &Docker, flavour: Flavour, image: &str) -> Result<()> {
    let name = own_name(docker);
    let body = ContainerCreateBody {
        image: Some(image.to_owned()),
        entrypoint: Some(vec!["/guest".to_owned(), "install".to_owned()]),
        user: Some("0:0".to_owned()),
        host_config: Some(HostConfig {
            network_mode: Some("none".to_owned()),
            cap_drop: Some(vec!["ALL".to_owned()]),
            security_opt: Some(vec!["no-new-privileges".to_owned()]),
            mounts: Some(vec![container::program_volume(&volume(), false, "/target")]),
            ulimits: flavour.ulimits(),
            ..HostConfig::default()
        }),
        ..ContainerCreateBody::default()
    };
    let code = docker.client.ask_within(patience::MAKE, INTO_VOLUME, |engine| async move {
        let options = CreateContainerOptionsBuilder::default().name(&name).build();
        let created = engine.create_container(Some(options), body).await?;
        (docker.config.crash)("docker.install.container");
        engine.start_container(&created.id, None).await?;
        let mut ends = std::pin::pin!(engine.wait_container(&created.id, None));
        match ends.next().await {
            Some(Ok(end)) => Ok((end.status_code, String::new())),
            Some(Err(bollard::errors::Error::DockerContainerWaitError { code, error })) => Ok((code, error)),
            Some(Err(error)) => Err(error),
            None => Ok((-1, "the engine did not report its end".to_owned())),
        }
    })?;
    match code {
        (0, _) => Ok(()),
        (code, words) => {
            let words: String = words.chars().take(WORDS_MAX).collect();
            Err(Error::new(
                Kind::StartFailed,
                format!("the guest's program could not put itself into a volume: exit {code} {words}"),
            ))
        }
    }
}

fn remove_container(docker: &Docker) -> Result<()> {
    let (name, options) =
        (own_name(docker), RemoveContainerOptionsBuilder::default().force(true).v(true).build());
    docker.client.ask_within(
        patience::REMOVAL,
        "remove what an earlier installation left",
        |engine| async move {
            match engine.remove_container(&name, Some(options)).await {
                Err(error) if failure::is_status(&error, 404) => Ok(()),
                removed => removed,
            }
        },
    )
}
