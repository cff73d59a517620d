//! Loads an archive into the container engine.

use std::fs::File;
use std::io;

use bollard::body_try_stream;
use bollard::errors::Error as Refusal;
use bollard::query_parameters::ImportImageOptions;
use coracle_core::image::{Reference, Stored};
use coracle_core::{Cancel, Error, Kind, Result};
use futures_util::StreamExt;

use super::feed;
use crate::docker::Docker;
use crate::docker::patience::UPLOAD;

/// How Docker and Podman begin a line that names an image.
const LOADED: [&str; 2] = ["Loaded image: ", "Loaded image(s): "];

/// Loads the images of an archive and returns those that have names.
pub fn load(engine: &Docker, mut archive: File, cancel: &Cancel) -> Result<Vec<Stored>> {
    let (feed, body) = feed(move |into| io::copy(&mut archive, into).map(drop));
    let said = engine.client.ask_until(cancel, "load an archive", async |docker: bollard::Docker| {
        let docker = docker.with_timeout(UPLOAD);
        let mut lines = docker.import_image(ImportImageOptions::default(), body_try_stream(body), None);
        let mut said = Vec::new();
        while let Some(line) = lines.next().await {
            match line {
                Ok(line) => said.extend(line.stream),
                Err(error) => return refused(error).map(Err),
            }
        }
        Ok(Ok(said))
    });
    if let Some(error) = feed.failure() {
        return Err(Error::new(Kind::Invalid, "could not read the archive").caused_by(error));
    }
    let said = said?.map_err(|said| {
        Error::new(Kind::Invalid, format!("the engine could not read the archive: {said}"))
            .hint("engines take what `docker save` writes; older ones take no OCI layout")
    })?;
    names(&said.concat()).iter().map(|reference| engine.stored(reference)).collect()
}

/// Returns the container engine's objection to the archive; other errors are not about it.
fn refused(error: Refusal) -> Result<String, Refusal> {
    match error {
        Refusal::DockerStreamError { error } => Ok(error),
        Refusal::DockerResponseServerError { message, .. } => Ok(message),
        other => Err(other),
    }
}

fn names(said: &str) -> Vec<Reference> {
    let lists = said.lines().filter_map(|line| LOADED.iter().find_map(|start| line.strip_prefix(start)));
    lists.flat_map(|list| list.split(',')).filter_map(|name| name.trim().parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_from_what_docker_and_podman_say() {
        let said = "Loaded image: app:1\nLoaded image ID: sha256:00\nLoaded image(s): localhost/a:1,docker.io/library/b:2\n";

        let names: Vec<_> = names(said).iter().map(ToString::to_string).collect();

        assert_eq!(names, ["docker.io/library/app:1", "localhost/a:1", "docker.io/library/b:2"]);
    }
}
