//! What is an endpoint, what is not, and which one settings lead to.

use std::fs;
use std::path::Path;

use coracle_core::Kind;
use sha2::{Digest, Sha256};

use super::*;

fn ssh(user: Option<&str>, host: &str, port: Option<u16>, socket: Option<&str>) -> Endpoint {
    Endpoint::Ssh(SshPlace {
        user: user.map(str::to_owned),
        host: host.to_owned(),
        port,
        socket: socket.map(PathBuf::from),
    })
}

fn tcp(host: &str, port: u16) -> Endpoint {
    Endpoint::Tcp { host: host.to_owned(), port }
}

#[test]
fn every_kind_of_endpoint_is_read_and_written_the_same() {
    for (text, expected) in [
        ("unix:///var/run/docker.sock", Endpoint::Unix("/var/run/docker.sock".into())),
        ("unix:///run/with space/d.sock", Endpoint::Unix("/run/with space/d.sock".into())),
        ("tcp://engine.lan:2375", tcp("engine.lan", 2375)),
        ("tcp://[::1]:2375", tcp("::1", 2375)),
        ("ssh://host", ssh(None, "host", None, None)),
        ("ssh://me@host:2222/run/docker.sock", ssh(Some("me"), "host", Some(2222), Some("/run/docker.sock"))),
        (
            "ssh://[fe80::1]/run/user/1000/podman/podman.sock",
            ssh(None, "fe80::1", None, Some("/run/user/1000/podman/podman.sock")),
        ),
    ] {
        let endpoint = Endpoint::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));

        assert_eq!(endpoint, expected);
        assert_eq!(endpoint.to_string(), text);
    }
}

#[test]
fn what_is_not_written_is_filled_in() {
    assert_eq!(Endpoint::parse("tcp://engine").expect("valid"), tcp("engine", 2375));
    assert_eq!(Endpoint::parse("http://engine/").expect("valid"), tcp("engine", 2375));
    assert_eq!(Endpoint::parse("ssh://host/").expect("valid"), ssh(None, "host", None, None));
}

#[test]
fn certificates_make_tls_of_tcp_but_not_of_http() {
    let certificates = Path::new("/certs");
    let secured = |text| Endpoint::secured(text, Some(certificates)).expect("valid");
    let expected = |port| Endpoint::Tls { host: "engine".into(), port, certificates: certificates.into() };

    assert_eq!(secured("tcp://engine"), expected(2376));
    assert_eq!(secured("https://engine:443"), expected(443));
    assert_eq!(secured("http://engine"), tcp("engine", 2375));
    assert_eq!(secured("tcp://engine").to_string(), "https://engine:2376");
}

#[test]
fn what_no_engine_is_reached_by_is_refused_with_a_hint() {
    let long = format!("unix:///{}", "x".repeat(SOCKET_PATH_MAX));
    let endless = format!("tcp://{}", "ä".repeat(TEXT_MAX));
    for text in [
        "",
        "docker",
        "/var/run/docker.sock",
        "npipe:////./pipe/docker_engine",
        "fd://",
        "unix://",
        "unix://relative.sock",
        "unix:///run/",
        "unix:///run/a\nb",
        &long,
        &endless,
        "tcp://",
        "tcp://:2375",
        "tcp://user@engine:2375",
        "tcp://engine:2375/prefix",
        "tcp://engine:0",
        "tcp://engine:65536",
        "tcp://engine:+1",
        "tcp://engine:",
        "tcp://::1:2375",
        "tcp://[::1",
        "tcp://[engine]:1",
        "tcp://[::1]2375",
        "https://engine:2376",
    ] {
        let error = Endpoint::parse(text).expect_err(text);

        assert_eq!(error.kind, Kind::Invalid, "{text}");
        assert!(error.hint.is_some(), "{text}");
    }
}

/// CVE-2017-1000117 and the like: a host that is an option or special to a shell runs a program on this machine.
#[test]
fn a_host_a_user_or_a_path_that_could_mean_something_to_ssh_is_refused() {
    for text in [
        "ssh://",
        "ssh://-oProxyCommand=touch",
        "ssh://-oProxyCommand=x@host",
        "ssh://me@-oProxyCommand=x",
        "ssh://@host",
        "ssh://host;touch",
        "ssh://host`id`",
        "ssh://$(id)",
        "ssh://ho st",
        "ssh://ho\tst",
        "ssh://h%68ost",
        "ssh://höst",
        "ssh://a@b@host",
        "ssh://me:password@host",
        "ssh://host:22:22",
        "ssh://host?x",
        "ssh://host/run/a:b",
        "ssh://host/run/%h",
        "ssh://host/run/${HOME}",
        "ssh://host/run/[x]",
        "ssh://host/run/a\\b",
        "ssh://host/run/a b",
        "ssh://host//",
        "ssh://host/run/",
    ] {
        assert_eq!(Endpoint::parse(text).expect_err(text).kind, Kind::Invalid, "{text}");
    }
}

/// A directory like `~/.docker`.
struct Docker(tempfile::TempDir);

impl Docker {
    fn new(current: &str) -> Self {
        let docker = Self(tempfile::tempdir().expect("a directory can be made"));
        fs::write(docker.0.path().join("config.json"), current).expect("the directory is ours");
        docker
    }

    fn with(self, name: &str, meta: &str) -> Self {
        let directory = self.0.path().join("contexts/meta").join(hex(name));
        fs::create_dir_all(&directory).expect("the directory is ours");
        fs::write(directory.join("meta.json"), meta).expect("the directory is ours");
        self
    }

    fn with_certificates(self, name: &str) -> Self {
        fs::create_dir_all(self.certificates(name)).expect("the directory is ours");
        self
    }

    fn certificates(&self, name: &str) -> PathBuf {
        self.0.path().join("contexts/tls").join(hex(name)).join("docker")
    }

    fn engines(&self) -> Engines {
        Engines { docker_config: Some(self.0.path().to_owned()), ..Engines::default() }
    }
}

fn hex(name: &str) -> String {
    Sha256::digest(name).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn meta(name: &str, host: &str) -> String {
    format!(
        r#"{{"Name":"{name}","Metadata":{{}},"Endpoints":{{"docker":{{"Host":"{host}","SkipTLSVerify":false}}}}}}"#
    )
}

#[test]
fn the_variable_comes_before_the_context_and_that_before_the_chosen_one() {
    let directory = Docker::new(r#"{"auths":{},"currentContext":"chosen"}"#)
        .with("chosen", &meta("chosen", "ssh://chosen"))
        .with("named", &meta("named", "unix:///named.sock"));
    let chosen = directory.engines();
    let named = Engines { docker_context: Some("named".into()), ..chosen.clone() };
    let host = Engines { docker_host: Some("tcp://variable:1".into()), ..named.clone() };

    assert_eq!(docker(&chosen).expect("valid"), ssh(None, "chosen", None, None));
    assert_eq!(docker(&named).expect("valid"), Endpoint::Unix("/named.sock".into()));
    assert_eq!(docker(&host).expect("valid"), tcp("variable", 1));
}

#[test]
fn without_settings_it_is_the_usual_socket() {
    let usual = Endpoint::Unix("/var/run/docker.sock".into());
    let chosen = Docker::new(r#"{"currentContext":"gone"}"#);
    let default = Engines { docker_context: Some("default".into()), ..chosen.engines() };

    assert_eq!(docker(&Engines::default()).expect("valid"), usual);
    assert_eq!(docker(&Docker::new("{}").engines()).expect("valid"), usual);
    assert_eq!(docker(&Docker::new(r#"{"currentContext":""}"#).engines()).expect("valid"), usual);
    assert_eq!(docker(&default).expect("valid"), usual);
}

#[test]
fn certificates_come_from_the_variable_the_directory_or_the_context() {
    let directory = Docker::new("{}").with("tls", &meta("tls", "tcp://remote:2376")).with_certificates("tls");
    let variable = Engines { docker_host: Some("tcp://remote".into()), ..directory.engines() };
    let verified = Engines { docker_tls_verify: true, ..variable.clone() };
    let named = Engines { docker_cert_path: Some("/certs".into()), ..verified.clone() };
    let context = Engines { docker_context: Some("tls".into()), ..directory.engines() };
    let certificates = |engines: &Engines| match docker(engines).expect("valid") {
        Endpoint::Tls { certificates, .. } => Some(certificates),
        Endpoint::Unix(_) | Endpoint::Tcp { .. } | Endpoint::Ssh(_) => None,
    };

    assert_eq!(certificates(&variable), None);
    assert_eq!(certificates(&verified), Some(directory.0.path().to_owned()));
    assert_eq!(certificates(&named), Some("/certs".into()));
    assert_eq!(certificates(&context), Some(directory.certificates("tls")));
}

#[test]
fn a_context_that_cannot_be_followed_is_an_error_with_its_name() {
    let unverified = r#"{"Name":"lax","Endpoints":{"docker":{"Host":"tcp://x:1","SkipTLSVerify":true}}}"#;
    let directory = Docker::new("{}")
        .with("other", &meta("another", "unix:///x.sock"))
        .with("kubernetes", r#"{"Name":"kubernetes","Endpoints":{}}"#)
        .with("hostile", &meta("hostile", "ssh://-oProxyCommand=x"))
        .with("lax", unverified)
        .with("torn", r#"{"Name":"torn","#);
    for (name, kind) in [
        ("gone", Kind::NotFound),
        ("../../etc", Kind::NotFound),
        ("other", Kind::Invalid),
        ("kubernetes", Kind::Invalid),
        ("hostile", Kind::Invalid),
        ("lax", Kind::Unsupported),
        ("torn", Kind::Invalid),
    ] {
        let engines = Engines { docker_context: Some(name.into()), ..directory.engines() };

        assert_eq!(docker(&engines).expect_err(name).kind, kind, "{name}");
    }
}

#[test]
fn podman_is_where_the_variable_says_or_where_a_socket_is() {
    let directory = tempfile::tempdir().expect("a directory can be made");
    let own = directory.path().join("podman/podman.sock");
    let engines = Engines { runtime_directory: Some(directory.path().into()), ..Engines::default() };
    let named = Engines { container_host: Some("ssh://me@host/run/podman.sock".into()), ..engines.clone() };
    fs::create_dir(directory.path().join("podman")).expect("ours");
    fs::write(&own, "").expect("ours");

    assert_eq!(podman(&Engines::default()).expect("valid"), Endpoint::Unix("/run/podman/podman.sock".into()));
    assert_eq!(podman(&engines).expect("valid"), Endpoint::Unix(own));
    assert_eq!(podman(&named).expect("valid"), ssh(Some("me"), "host", None, Some("/run/podman.sock")));
}
