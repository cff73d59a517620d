//! A real container engine behind TLS: it demands a certificate and has to show one.

use std::fs;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;

use coracle_tests::engines::{Containers, Ending, Engine, Kind, Storage, TEST_IMAGE, image};
use coracle_tests::{Call, Home, requires};
use rustix::net::sockopt::socket_peercred;
use serde_json::Value;
use tempfile::TempDir;

const ADDRESS: &str = "tcp://127.0.0.1:2376";

/// An authority, and what it has signed for a server at 127.0.0.1 and for a client.
struct Authority(TempDir);

impl Authority {
    fn new() -> Self {
        let authority = Self(tempfile::tempdir().expect("a directory can be made"));
        authority.openssl("req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=authority -keyout ca.key -out ca.pem");
        authority.sign("server", "server", "subjectAltName=IP:127.0.0.1\nextendedKeyUsage=serverAuth");
        authority.sign("cert", "key", "extendedKeyUsage=clientAuth");
        authority
    }

    fn sign(&self, certificate: &str, key: &str, extensions: &str) {
        fs::write(self.path().join("extensions"), extensions).expect("the directory is ours");
        let key = if key == certificate { format!("{key}-key") } else { key.to_owned() };
        self.openssl(&format!("req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj /CN={certificate} -keyout {key}.pem -out request"));
        self.openssl(&format!("x509 -req -in request -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile extensions -out {certificate}.pem"));
    }

    fn openssl(&self, words: &str) {
        let made = Command::new("openssl")
            .args(words.split(' '))
            .current_dir(self.path())
            .output()
            .expect("openssl starts");
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    /// Returns the flags by which an engine listens with TLS.
    fn flags(&self) -> String {
        let path = |name: &str| self.path().join(name).display().to_string();
        let (authority, certificate, key) = (path("ca.pem"), path("server.pem"), path("server-key.pem"));
        format!("--host {ADDRESS} --tlsverify --tlscacert {authority} --tlscert {certificate} --tlskey {key}")
    }
}

/// Makes a home whose calls are made where the engine's network is.
fn home_beside(engine: &Engine) -> Home {
    let stream = UnixStream::connect(engine.socket()).expect("it listens");
    let process = socket_peercred(&stream).expect("sockets know").pid.as_raw_nonzero();
    Home::new().inside(&["nsenter".to_owned(), format!("--net=/proc/{process}/ns/net"), "--".to_owned()])
}

fn run(home: &Home) -> Call {
    home.call(["run", "--json", "--backend", "docker", "--image", TEST_IMAGE, "--", "echo", "hello"])
}

fn verified(call: Call, directory: &Path) -> Call {
    call.env("DOCKER_HOST", ADDRESS).env("DOCKER_TLS_VERIFY", "1").env("DOCKER_CERT_PATH", directory)
}

/// Writes a context as `docker context create` does.
fn write_context(config: &Path, authority: &Authority) {
    let docker = |words: &[&str]| {
        let made =
            Command::new("docker").env("DOCKER_CONFIG", config).args(words).output().expect("docker starts");
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    };
    let path = |name: &str| authority.path().join(name).display().to_string();
    let (ca, cert, key) = (path("ca.pem"), path("cert.pem"), path("key.pem"));
    let engine = format!("host={ADDRESS},ca={ca},cert={cert},key={key}");
    docker(&["context", "create", "far", "--docker", &engine]);
    docker(&["context", "use", "far"]);
}

fn refusal(call: Call) -> (String, String) {
    let error: Value = call.run().error();
    (
        error["kind"].as_str().unwrap_or_default().to_owned(),
        error["hint"].as_str().unwrap_or_default().to_owned(),
    )
}

#[test]
fn both_sides_show_certificates_of_the_same_authority_or_nothing_is_said() {
    requires!(docker);
    let (authority, other) = (Authority::new(), Authority::new());
    let engine = Engine::start(Kind::Docker, Storage::Memory, Containers::End).expect("it starts");
    engine.load(image::archive());
    engine.stop(Ending::Asked);
    engine.begin_with(&authority.flags()).expect("it starts again");
    let home = home_beside(&engine);
    let config = tempfile::tempdir().expect("a directory can be made");
    write_context(config.path(), &authority);
    // Ours is not theirs: they are trusted, but do not trust us.
    let stranger = tempfile::tempdir().expect("a directory can be made");
    for (name, from) in [("ca.pem", &authority), ("cert.pem", &other), ("key.pem", &other)] {
        fs::copy(from.path().join(name), stranger.path().join(name)).expect("ours");
    }

    let by_variable = verified(run(&home), authority.path()).succeed().json();
    let by_context = run(&home).env("DOCKER_CONFIG", config.path()).succeed().json();
    let impostor = refusal(verified(run(&home), other.path()));
    let unknown = refusal(verified(run(&home), stranger.path()));
    let without = refusal(verified(run(&home), home.path()));
    let plain = refusal(run(&home).env("DOCKER_HOST", ADDRESS));

    assert_eq!((&by_variable["stdout"], &by_context["stdout"]), (&"hello\n".into(), &"hello\n".into()));
    for (kind, hint) in [impostor, unknown] {
        assert_eq!(kind, "not_available");
        assert!(hint.contains("certificates"), "{hint}");
    }
    assert!(without.0 == "not_available" && without.1.contains("DOCKER_CERT_PATH"), "{without:?}");
    assert_ne!(plain.0, "internal");
}
