//! Pulls through the container engine, with the user's own credentials.

use bollard::auth::DockerCredentials;
use bollard::errors::Error as Refusal;
use bollard::query_parameters::CreateImageOptionsBuilder;
use coracle_core::image::{Progress, Reference, Stored};
use coracle_core::{Error, Kind, Result};
use coracle_images::credentials::{self, Credentials};
use futures_util::StreamExt;

use super::progress::PullProgress;
use crate::docker::Docker;
use crate::steps::says_missing;

/// Pulls what a reference names now.
pub fn pull(engine: &Docker, reference: &Reference, progress: &dyn Progress) -> Result<Stored> {
    let credentials = credentials(engine, reference.registry())?;
    let name = reference.to_string();
    let mut pull = PullProgress::new(name.clone(), progress);
    let attempted = format!("pull image `{name}`");
    let pulled = engine.client.ask_until(&progress.cancel(), &attempted, async |docker: bollard::Docker| {
        let options = CreateImageOptionsBuilder::default().from_image(&name).build();
        let mut lines = docker.create_image(Some(options), None, credentials);
        while let Some(line) = lines.next().await {
            match line {
                Ok(line) => pull.hear(&line),
                Err(error) if is_missing(&error) => return Ok(Err(words(&error))),
                Err(error) => return Err(error),
            }
        }
        Ok(Ok(()))
    });
    let pulled = pulled.map_err(|error| unreached(reference, error))?;
    pulled.map_err(|said| not_found(reference, &said))?;
    let stored = engine.stored(reference)?;
    pull.finish(&stored.digest);
    Ok(stored)
}

/// Returns the user's credentials for a registry, in the container engine's form.
pub fn credentials(engine: &Docker, registry: &str) -> Result<Option<DockerCredentials>> {
    let found = credentials::find(engine.config.registries.docker_config.as_deref(), registry)?;
    // The container engine stores its own registry under an address from before there were others.
    let server = if registry == "docker.io" { "https://index.docker.io/v1/" } else { registry };
    let empty = DockerCredentials { serveraddress: Some(server.to_owned()), ..Default::default() };
    Ok(found.map(|found| match found {
        Credentials::Password { name, password } => {
            DockerCredentials { username: Some(name), password: Some(password), ..empty }
        }
        Credentials::Identity(token) => DockerCredentials { identitytoken: Some(token), ..empty },
    }))
}

fn is_missing(error: &Refusal) -> bool {
    match error {
        Refusal::DockerStreamError { error } => says_missing(error),
        Refusal::DockerResponseServerError { status_code, message } => {
            *status_code == 404 || says_missing(message)
        }
        _ => false,
    }
}

fn words(error: &Refusal) -> String {
    match error {
        Refusal::DockerStreamError { error } => error.trim().to_owned(),
        Refusal::DockerResponseServerError { message, .. } => message.trim().to_owned(),
        other => other.to_string(),
    }
}

/// Explains that the container engine could not reach a registry.
fn unreached(reference: &Reference, error: Error) -> Error {
    let registry = reference.registry();
    match error.kind {
        Kind::Internal => Error::new(
            Kind::NotAvailable,
            format!("the engine does not have image `{reference}` and could not get it"),
        )
        .hint(format!("see whether the engine can reach `{registry}`, or load the image into it"))
        .detail("image", reference.to_string())
        .caused_by(error),
        _ => error,
    }
}

fn not_found(reference: &Reference, said: &str) -> Error {
    let registry = reference.registry();
    Error::new(Kind::ImageNotFound, format!("image `{reference}` was not found: {said}"))
        .hint(format!("check the name and the tag; if it is private, run `docker login {registry}`"))
        .detail("image", reference.to_string())
}
