//! The user's credentials, as `docker login` stored them.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use coracle_core::{Error, Result};
use docker_credential::{
    CredentialRetrievalError as Retrieval, DockerCredential, get_credential_from_reader,
};

/// A Docker configuration is smaller than this.
const CONFIG_MAX: u64 = 1 << 20;

/// A user's credentials for a registry. Never printed.
pub enum Credentials {
    Password {
        name: String,
        password: String,
    },
    /// Exchanged for a token at the realm.
    Identity(String),
}

impl std::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Credentials")
    }
}

/// Returns the user's credentials for a registry, if there are some. May run a helper program the user configured.
pub fn find(docker_config: Option<&Path>, registry: &str) -> Result<Option<Credentials>> {
    let Some(path) = docker_config.map(|directory| directory.join("config.json")) else { return Ok(None) };
    let file = match File::open(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file.map_err(|error| unreadable(&path).caused_by(error))?,
    };
    // Docker stores the credentials for its own registry under an address from before there were others.
    let server = if registry == "docker.io" { "https://index.docker.io/v1/" } else { registry };
    match get_credential_from_reader(file.take(CONFIG_MAX), server) {
        Ok(DockerCredential::UsernamePassword(name, password)) => {
            Ok(Some(Credentials::Password { name, password }))
        }
        Ok(DockerCredential::IdentityToken(token)) => Ok(Some(Credentials::Identity(token))),
        // A helper that fails usually has nothing for this registry. Its output may be secret.
        Err(
            Retrieval::NoCredentialConfigured | Retrieval::ConfigNotFound | Retrieval::HelperFailure { .. },
        ) => Ok(None),
        Err(Retrieval::HelperCommunicationError | Retrieval::MalformedHelperResponse) => {
            Err(unreadable(&path).hint("the credential helper named there does not work"))
        }
        Err(
            Retrieval::CredentialDecodingError
            | Retrieval::CredentialMismatchError
            | Retrieval::ConfigReadError,
        ) => Err(unreadable(&path).hint("run `docker login` again")),
    }
}

fn unreadable(path: &Path) -> Error {
    Error::invalid(
        "registries.docker_config",
        format!("has no credentials that can be read in `{}`", path.display()),
    )
}
