//! A container engine behind TLS: each side presents a certificate, and one authority vouches for both.
//!
//! bollard could connect by itself, but would trust every authority of the machine as well. The user has named one.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bollard::{API_DEFAULT_VERSION, BollardRequest, Docker};
use coracle_core::{Error, Kind, Result};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};

/// A reachable machine accepts a connection within a round trip.
const CONNECT: Duration = Duration::from_secs(10);
/// A certificate is a few kilobytes, a chain of them a few more.
const FILE_MAX: u64 = 1024 * 1024;

/// Returns the client of a container engine; sends nothing.
pub fn connect(address: &str, certificates: &Path, patience: u64) -> Result<Docker> {
    let connector = connector(config(certificates)?);
    // As with sockets, a connection is for one request: an idle one would outlive the runtime it was made in.
    let client = Client::builder(TokioExecutor::new()).pool_max_idle_per_host(0).build(connector);
    let ask = move |request: BollardRequest| {
        let answer = client.request(request);
        async move { answer.await.map_err(bollard::errors::Error::from) }
    };
    Docker::connect_with_custom_transport(ask, Some(address), patience, API_DEFAULT_VERSION)
        .map_err(|error| Error::internal(format!("could not prepare a connection to `{address}`"), error))
}

/// Only HTTP/1 turns into a plain stream, which execs need.
fn connector(config: ClientConfig) -> HttpsConnector<HttpConnector> {
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_connect_timeout(Some(CONNECT));
    HttpsConnectorBuilder::new().with_tls_config(config).https_only().enable_http1().wrap_connector(tcp)
}

fn config(directory: &Path) -> Result<ClientConfig> {
    let [authority, certificate, key] = ["ca.pem", "cert.pem", "key.pem"].map(|name| directory.join(name));
    let mut roots = RootCertStore::empty();
    for found in certificates(&authority)? {
        roots.add(found).map_err(|error| unusable(&authority).caused_by(error))?;
    }
    let key_of_ours =
        PrivateKeyDer::from_pem_slice(&read(&key)?).map_err(|error| unusable(&key).caused_by(error))?;
    let chain = certificates(&certificate)?;
    // Chosen here and not left to the process, where another crate could have chosen another.
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map(|builder| builder.with_root_certificates(roots))
        .and_then(|builder| builder.with_client_auth_cert(chain, key_of_ours))
        .map_err(|error| unusable(&certificate).caused_by(error))
}

/// Reads a file with at least one certificate.
fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&read(path)?).collect();
    match found {
        Ok(found) if found.is_empty() => Err(unusable(path).caused_by("no certificate is in it")),
        found => found.map_err(|error| unusable(path).caused_by(error)),
    }
}

fn read(path: &Path) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(FILE_MAX).read_to_end(&mut bytes));
    read.map(|_| bytes).map_err(|error| unusable(path).caused_by(error))
}

fn unusable(path: &Path) -> Error {
    Error::new(Kind::NotAvailable, format!("could not use `{}` to reach an engine", path.display()))
        .hint("DOCKER_CERT_PATH, or the context, names a directory with `ca.pem`, `cert.pem` and `key.pem`")
}
