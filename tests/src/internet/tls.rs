//! The servers' certificate: made for one test, self-signed.

use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::{Arc, OnceLock};

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use tempfile::TempDir;

/// Names it is valid for.
const NAMES: &str = "subjectAltName=DNS:ok.test,DNS:*.ok.test,DNS:other.test,DNS:evil.test,DNS:*.evil.test,\
                     DNS:example.com,DNS:*.example.com,DNS:pypi.org,DNS:files.pythonhosted.org,DNS:github.com";

/// A certificate and its key, made when they are first needed.
#[derive(Debug, Default)]
pub struct Identity {
    made: OnceLock<(TempDir, Arc<ServerConfig>)>,
}

impl Identity {
    /// Returns the certificate in PEM.
    pub fn certificate(&self) -> String {
        std::fs::read_to_string(certificate(&self.made().0)).expect("it was made")
    }

    /// Greets a client, and returns the name it asked for; nothing if it does not speak TLS.
    pub fn accept(
        &self,
        mut stream: TcpStream,
    ) -> Option<(StreamOwned<ServerConnection, TcpStream>, Option<String>)> {
        let mut connection =
            ServerConnection::new(self.made().1.clone()).expect("the configuration is complete");
        while connection.is_handshaking() {
            connection.complete_io(&mut stream).ok()?;
        }
        let name = connection.server_name().map(str::to_owned);
        Some((StreamOwned::new(connection, stream), name))
    }

    fn made(&self) -> &(TempDir, Arc<ServerConfig>) {
        self.made.get_or_init(make)
    }
}

fn make() -> (TempDir, Arc<ServerConfig>) {
    let directory = tempfile::tempdir().expect("a directory can be made");
    let key = directory.path().join("key.pem");
    let made = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"])
        .args([
            "-days",
            "2",
            "-subj",
            "/CN=internet",
            "-addext",
            NAMES,
            "-addext",
            "basicConstraints=CA:FALSE",
        ])
        .arg("-keyout")
        .arg(&key)
        .arg("-out")
        .arg(certificate(&directory))
        .stderr(Stdio::null())
        .status();
    assert!(made.expect("Debian's package `openssl` is installed").success());
    let chain = vec![CertificateDer::from_pem_file(certificate(&directory)).expect("openssl has written it")];
    let key = PrivateKeyDer::from_pem_file(key).expect("openssl has written it");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("the provider has them")
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .expect("the key is the certificate's");
    (directory, Arc::new(config))
}

fn certificate(directory: &TempDir) -> PathBuf {
    directory.path().join("certificate.pem")
}
