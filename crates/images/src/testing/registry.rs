//! A real registry, Debian's `docker-registry`, on this machine and for one test.

use std::fs;
use std::io::Read;
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;
use ureq::Agent;

use super::image::{Blob, Image};

/// A running registry; it ends when this is dropped.
#[derive(Debug)]
pub struct Registry {
    process: Child,
    host: String,
    scheme: &'static str,
    agent: Agent,
    /// The registry may lose a blob that two clients push at the same time.
    pushing: Mutex<()>,
    _storage: TempDir,
}

impl Registry {
    /// Starts an empty registry on a free port.
    pub fn start() -> Self {
        Self::start_at("127.0.0.1", "")
    }

    /// Starts a registry with TLS at an address of this machine. Also returns the certificate to trust.
    pub fn start_with_tls(address: &str) -> (Self, TempDir) {
        Self::start_as(address, &format!("IP:{address}"))
    }

    /// Does the same under other names, such as `DNS:registry.test`.
    pub fn start_as(address: &str, names: &str) -> (Self, TempDir) {
        let keys = TempDir::new().expect("a temporary directory can be made");
        let path = |name: &str| keys.path().join(name).display().to_string();
        let (certificate, key) = (path("root.pem"), path("key.pem"));
        let name = format!("subjectAltName={names}");
        let made = Command::new("openssl")
            .args([
                "req",
                "-x509",
                "-newkey",
                "ec",
                "-pkeyopt",
                "ec_paramgen_curve:prime256v1",
                "-nodes",
                "-days",
                "2",
            ])
            .args([
                "-subj",
                "/CN=test",
                "-addext",
                &name,
                "-addext",
                "basicConstraints=critical,CA:FALSE",
                "-keyout",
                &key,
                "-out",
                &certificate,
            ])
            .stderr(Stdio::null())
            .status();
        assert!(made.expect("Debian's package `openssl` is installed").success());
        let tls = format!("  tls:\n    certificate: {certificate}\n    key: {key}\n");
        (Self::start_at(address, &tls), keys)
    }

    fn start_at(address: &str, tls: &str) -> Self {
        let storage = TempDir::new().expect("a temporary directory can be made");
        let port = free_port();
        let config = storage.path().join("config.yml");
        let text = format!(
            "version: 0.1\nlog:\n  level: error\nstorage:\n  filesystem:\n    rootdirectory: {}\nhttp:\n  addr: {address}:{port}\n{tls}",
            storage.path().join("data").display()
        );
        fs::write(&config, text).expect("the temporary directory is writable");
        // The registry ends with the thread that started it, however that ends.
        let process = Command::new("setpriv")
            .args(["--pdeathsig", "KILL", "docker-registry", "serve"])
            .arg(&config)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("Debian's package `docker-registry` is installed");
        let trusting = ureq::tls::TlsConfig::builder().disable_verification(true).build();
        let config =
            ureq::config::Config::builder().http_status_as_error(false).proxy(None).tls_config(trusting);
        let agent = config.build().new_agent();
        let scheme = if tls.is_empty() { "http" } else { "https" };
        let host = format!("{address}:{port}");
        let pushing = Mutex::new(());
        let registry = Self { process, host, scheme, agent, pushing, _storage: storage };
        registry.wait();
        registry
    }

    /// Returns host and port, the first part of references.
    pub fn host(&self) -> String {
        self.host.clone()
    }

    /// Pushes an image under a name and tag. Returns the reference.
    pub fn push(&self, name: &str, image: &Image) -> String {
        let _pushing = self.pushing.lock().unwrap_or_else(PoisonError::into_inner);
        let (repository, tag) = name.split_once(':').unwrap_or((name, "latest"));
        for blob in image.layers.iter().chain([&image.configuration_blob()]) {
            self.push_blob(repository, blob);
        }
        self.push_manifest(repository, tag, &image.manifest);
        format!("{}/{repository}:{tag}", self.host())
    }

    pub fn push_blob(&self, repository: &str, blob: &Blob) {
        let begun = self.agent.post(self.address(&format!("/v2/{repository}/blobs/uploads/"))).send_empty();
        let begun = begun.expect("the registry answers");
        let location = begun.headers().get("location").and_then(|value| value.to_str().ok());
        let location = location.unwrap_or_else(|| panic!("{:?} has no location", begun.status()));
        let address = format!("{location}&digest={}", blob.digest);
        let put = self.agent.put(address).content_type("application/octet-stream").send(&blob.bytes[..]);
        assert_eq!(put.expect("the registry answers").status(), 201);
    }

    /// Pushes a manifest or an index.
    pub fn push_manifest(&self, repository: &str, tag: &str, manifest: &Value) {
        let address = self.address(&format!("/v2/{repository}/manifests/{tag}"));
        let media_type = manifest["mediaType"].as_str().expect("a manifest says what it is");
        let put = self.agent.put(address).content_type(media_type).send(manifest.to_string());
        let mut answer = put.expect("the registry answers");
        let mut text = String::new();
        let _ = answer.body_mut().as_reader().read_to_string(&mut text);
        assert_eq!(answer.status(), 201, "{text}");
    }

    fn address(&self, path: &str) -> String {
        format!("{}://{}{path}", self.scheme, self.host)
    }

    fn wait(&self) {
        for _ in 0..500 {
            if TcpStream::connect(&self.host).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        panic!("the registry did not come up");
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("this machine has a loopback");
    listener.local_addr().expect("it was just bound").port()
}
