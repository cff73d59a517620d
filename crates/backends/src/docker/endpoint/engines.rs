//! What the user's environment and files say about container engines, and which endpoint follows from it.

use std::path::{Path, PathBuf};

use coracle_core::Result;

use super::{Endpoint, context};

const DOCKER_SOCKET: &str = "/var/run/docker.sock";
const PODMAN_SOCKET: &str = "/run/podman/podman.sock";

/// What the user's environment and files say; backends do not read the environment themselves.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Engines {
    pub docker_host: Option<String>,
    pub docker_context: Option<String>,
    /// The directory of Docker's `config.json` and contexts.
    pub docker_config: Option<PathBuf>,
    pub docker_tls_verify: bool,
    pub docker_cert_path: Option<PathBuf>,
    /// Where Podman listens.
    pub container_host: Option<String>,
    /// The directory of this user's sockets.
    pub runtime_directory: Option<PathBuf>,
    /// The ssh program and its first arguments.
    pub ssh: Option<Vec<String>>,
    /// The image that `host` means on container engines, which have none of this machine's files.
    pub image: Option<String>,
}

/// Returns where Docker listens: at `DOCKER_HOST`, else by the context, else at the usual socket.
pub fn docker(engines: &Engines) -> Result<Endpoint> {
    if let Some(host) = &engines.docker_host {
        return Endpoint::secured(host, certificates(engines));
    }
    let chosen = match &engines.docker_context {
        Some(name) => Some(name.clone()),
        None => context::current(engines.docker_config.as_deref())?,
    };
    match chosen.as_deref() {
        None | Some(context::DEFAULT) => Ok(Endpoint::Unix(DOCKER_SOCKET.into())),
        Some(name) => context::endpoint(engines.docker_config.as_deref(), name),
    }
}

/// Returns where Podman listens: at `CONTAINER_HOST`, else at this user's socket, else at the machine's.
pub fn podman(engines: &Engines) -> Result<Endpoint> {
    if let Some(host) = &engines.container_host {
        return Endpoint::parse(host);
    }
    let own = engines.runtime_directory.as_ref().map(|directory| directory.join("podman/podman.sock"));
    let candidates: Vec<PathBuf> = own.into_iter().chain([PODMAN_SOCKET.into()]).collect();
    let there = candidates.iter().find(|path| path.exists());
    Ok(Endpoint::Unix(there.unwrap_or(&candidates[0]).clone()))
}

/// As for Docker, the certificates are in its own directory unless another is named.
fn certificates(engines: &Engines) -> Option<&Path> {
    let directory = engines.docker_cert_path.as_deref().or(engines.docker_config.as_deref());
    directory.filter(|_| engines.docker_tls_verify)
}
