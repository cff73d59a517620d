//! Docker's contexts: `config.json` says which one is in use; a file in `contexts/` says where its container engine
//! is.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use coracle_core::{Error, Kind, Result};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use sha2::{Digest, Sha256};

use super::Endpoint;

/// The context that stands for `DOCKER_HOST` or the usual socket; no file describes it.
pub const DEFAULT: &str = "default";
/// Files that a person's tools write; a large one is a few kilobytes.
const FILE_MAX: u64 = 1024 * 1024;

/// The part of `config.json` about contexts.
#[derive(Debug, Deserialize)]
struct Chosen {
    #[serde(rename = "currentContext", default)]
    name: Option<String>,
}

/// The part of a context's `meta.json` that says where its container engine is.
#[derive(Debug, Deserialize)]
struct Meta {
    #[serde(rename = "Name")]
    name: String,
    #[serde(rename = "Endpoints")]
    endpoints: Endpoints,
}

#[derive(Debug, Deserialize)]
struct Endpoints {
    docker: Option<Target>,
}

#[derive(Debug, Deserialize)]
struct Target {
    #[serde(rename = "Host", default)]
    host: String,
    #[serde(rename = "SkipTLSVerify", default)]
    unverified: bool,
}

/// Returns the context chosen by `docker context use`.
pub fn current(config: Option<&Path>) -> Result<Option<String>> {
    let Some(path) = config.map(|directory| directory.join("config.json")) else { return Ok(None) };
    let chosen: Option<Chosen> = read(&path)?;
    Ok(chosen.and_then(|chosen| chosen.name).filter(|name| !name.is_empty()))
}

/// Returns where the container engine of a context is.
pub fn endpoint(config: Option<&Path>, name: &str) -> Result<Endpoint> {
    let directory = config.ok_or_else(|| unknown(name))?.join("contexts");
    let digest = digest(name);
    let meta: Meta =
        read(&directory.join("meta").join(&digest).join("meta.json"))?.ok_or_else(|| unknown(name))?;
    let target = meta.endpoints.docker.filter(|target| !target.host.is_empty());
    let target = target.filter(|_| meta.name == name).ok_or_else(|| no_engine(name))?;
    if target.unverified {
        return Err(unverified(name));
    }
    let certificates = directory.join("tls").join(digest).join("docker");
    let certificates: Option<PathBuf> = certificates.is_dir().then_some(certificates);
    Endpoint::secured(&target.host, certificates.as_deref()).map_err(|error| {
        error.detail("context", name).hint(format!("correct it: `docker context update {name}`"))
    })
}

/// Docker names a context's directories by the digest of its name, so that no name is ever a path.
fn digest(name: &str) -> String {
    Sha256::digest(name.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Reads a file of Docker's; `None` if it is missing.
fn read<T: DeserializeOwned>(path: &Path) -> Result<Option<T>> {
    let unreadable = || Error::new(Kind::Invalid, format!("could not read Docker's `{}`", path.display()));
    let mut text = Vec::new();
    match File::open(path).and_then(|file| file.take(FILE_MAX).read_to_end(&mut text)) {
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            Ok(None)
        }
        Err(error) => Err(unreadable().caused_by(error)),
        Ok(_) => serde_json::from_slice(&text).map(Some).map_err(|error| unreadable().caused_by(error)),
    }
}

fn unknown(name: &str) -> Error {
    Error::new(Kind::NotFound, format!("there is no Docker context `{}`", name.escape_debug()))
        .hint("`docker context ls` lists them; DOCKER_CONTEXT and `docker context use` choose")
        .detail("context", name)
}

fn no_engine(name: &str) -> Error {
    Error::new(Kind::Invalid, format!("the Docker context `{}` names no engine", name.escape_debug()))
        .hint(format!("correct it: `docker context update {name} --docker host=…`"))
        .detail("context", name)
}

fn unverified(name: &str) -> Error {
    let message = format!(
        "the Docker context `{}` wants the engine's certificate not to be checked",
        name.escape_debug()
    );
    Error::new(Kind::Unsupported, message)
        .hint("give the context the engine's `ca.pem` and remove `skip-tls-verify`")
        .detail("context", name)
}
