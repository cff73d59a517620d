//! Images on a container engine: from a registry, from archives, and their removal.

use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use coracle_tests::engines::{Containers, Engine, Kind, Storage, TEST_IMAGE, docker, image};
use coracle_tests::{eventually, requires};
use serde_json::Value;
use tempfile::TempDir;

use crate::workshop::home;

/// Free in the engine's own network, where no other program listens.
const REGISTRY: &str = "localhost:5000";
const STARTED: Duration = Duration::from_secs(20);

/// An engine with a registry in its network: Debian's `docker-registry`, in a container that sees the machine's files.
struct EngineWithRegistry {
    engine: Engine,
    _files: TempDir,
}

fn engine_with_registry() -> &'static EngineWithRegistry {
    static ENGINE: OnceLock<EngineWithRegistry> = OnceLock::new();
    ENGINE.get_or_init(|| {
        let engine =
            Engine::start(Kind::Docker, Storage::Memory, Containers::End).expect("an engine starts");
        engine.load(image::archive());
        let files = tempfile::tempdir().expect("a directory can be made");
        let config = files.path().join("config.yml");
        let text = format!(
            "version: 0.1\nlog:\n  level: error\nstorage:\n  delete:\n    enabled: true\n  filesystem:\n    rootdirectory: {}\nhttp:\n  addr: {REGISTRY}\n",
            files.path().join("data").display()
        );
        std::fs::write(&config, text).expect("ours");
        let config = config.to_str().expect("UTF-8");
        let run = ["run", "-d", "--network", "host", "--name", "registry", "-v", "/:/machine", TEST_IMAGE];
        let serve = ["chroot", "/machine", "docker-registry", "serve", config];
        succeed(&mut engine.client(run.iter().chain(&serve)));
        let engine_with_registry = EngineWithRegistry { engine, _files: files };
        engine_with_registry.make("app:1");
        eventually(STARTED, || push(&engine_with_registry.engine, "app:1").status.success()).expect("the registry starts");
        engine_with_registry
    })
}

impl EngineWithRegistry {
    /// Makes an image with a layer of its own.
    fn make(&self, name: &str) {
        let (container, write) = (name.replace([':', '/'], "-"), format!("echo {name} > /name"));
        let run = ["run", "--network", "none", "--name", &container, TEST_IMAGE, "sh", "-c", &write];
        succeed(&mut self.engine.client(run));
        succeed(&mut self.engine.client(["commit", &container, &format!("{REGISTRY}/{name}")]));
        succeed(&mut self.engine.client(["rm", &container]));
    }

    /// Puts an image into the registry that the engine then no longer has.
    fn publish(&self, name: &str) -> String {
        self.make(name);
        let pushed = push(&self.engine, name);
        assert!(pushed.status.success(), "{}", String::from_utf8_lossy(&pushed.stderr));
        let whole = format!("{REGISTRY}/{name}");
        succeed(&mut self.engine.client(["rmi", &whole]));
        whole
    }
}

fn push(engine: &Engine, name: &str) -> std::process::Output {
    engine
        .client(["push", &format!("{REGISTRY}/{name}")])
        .output()
        .expect("Docker's command line is installed")
}

#[track_caller]
fn succeed(command: &mut Command) {
    let output = command.stdin(Stdio::null()).output().expect("Docker's command line is installed");
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}

fn listed(listed: &Value, name: &str) -> Option<Value> {
    let images = listed.as_array().expect("a list");
    images.iter().find(|image| image["reference"] == name).cloned()
}

#[test]
fn a_pulled_image_is_known_by_the_registrys_digest_and_sandboxes_record_it() {
    requires!(docker);
    let name = engine_with_registry().publish("pulled:1");
    let home = home(&engine_with_registry().engine);

    let pulled = home.call(["image", "pull", "--backend", "docker", &name, "--json"]).succeed().json();
    let pinned =
        home.call(["image", "pull", "--backend", "docker", &name]).succeed().text().trim().to_owned();
    let list = home.call(["image", "list", "--backend", "docker", "--json"]).succeed().json();
    let again = home.call(["image", "pull", "--backend", "docker", &pinned, "--json"]).succeed().json();

    assert_eq!(pulled["reference"], name);
    assert_eq!(pinned, format!("{REGISTRY}/pulled@{}", pulled["digest"].as_str().expect("a digest")));
    assert_eq!(listed(&list, &name).expect("it is listed")["digest"], pulled["digest"]);
    assert_eq!(again["digest"], pulled["digest"]);
    let sandbox = home.open_with(&["--backend", "docker", "--image", &name]);
    let shown = home.call(["show", &sandbox, "--json"]).succeed().json();
    assert!(shown.to_string().contains(pulled["digest"].as_str().expect("a digest")), "{shown}");
}

#[test]
fn an_image_that_is_missing_is_brought_for_a_sandbox() {
    requires!(docker);
    let name = engine_with_registry().publish("brought:1");
    let home = home(&engine_with_registry().engine);

    let ran = home.call(["run", "--backend", "docker", "--image", &name, "--", "echo", "here"]).succeed();

    assert_eq!(ran.text(), "here\n");
    assert!(ran.stderr.contains(&format!("`{name}`")), "{}", ran.stderr);
}

#[test]
fn what_no_registry_has_is_not_found_with_a_hint() {
    requires!(docker);
    let home = home(&engine_with_registry().engine);
    let name = format!("{REGISTRY}/no/such:1");

    let pulled = home.call(["image", "pull", "--backend", "docker", &name, "--json"]).run().error();
    let ran =
        home.call(["run", "--backend", "docker", "--image", &name, "--json", "--", "true"]).run().error();

    for error in [pulled, ran] {
        assert_eq!(error["kind"], "image_not_found", "{error}");
        assert!(error["hint"].as_str().is_some_and(|hint| hint.contains("docker login")), "{error}");
    }
}

#[test]
fn an_image_a_sandbox_uses_is_not_removed() {
    requires!(docker);
    let name = engine_with_registry().publish("used:1");
    let home = home(&engine_with_registry().engine);
    let remove = ["image", "remove", "--backend", "docker", &name, "--json"];
    let sandbox = home.open_with(&["--backend", "docker", "--image", &name]);

    let refused = home.call(remove).run();
    home.call(["close", &sandbox]).succeed();
    let removed = home.call(remove).succeed().json();
    let gone = home.call(remove).run();

    assert_eq!(refused.error_kind(), "conflict");
    assert_eq!(removed["references"], serde_json::json!([name]));
    assert_eq!(gone.error_kind(), "image_not_found");
}

#[test]
fn an_archive_is_loaded_into_the_engine() {
    requires!(docker);
    let home = home(docker());
    let archive = home.path().join("archive.tar");
    std::fs::write(&archive, image::archive()).expect("ours");
    let broken = home.path().join("broken.tar");
    std::fs::write(&broken, b"not an archive at all").expect("ours");
    let load = |path: &std::path::Path| {
        home.call(["image", "load", "--backend", "docker", "--json", path.to_str().expect("UTF-8")])
    };

    let loaded = load(&archive).succeed().json();
    let refused = load(&broken).run();

    assert_eq!(loaded["images"][0]["reference"], TEST_IMAGE);
    assert_eq!(refused.error_kind(), "invalid");
}

#[test]
fn images_named_in_the_settings_are_pulled_ahead() {
    requires!(docker);
    let name = engine_with_registry().publish("coracle-python:latest");
    let home = home(&engine_with_registry().engine);
    let settings = format!("[images]\nprefix = '{REGISTRY}/'\nprepull = ['python', 'ruby']\n");
    std::fs::write(home.path().join("config.toml"), settings).expect("ours");

    let brought =
        home.call(["image", "prepull", "--backend", "docker", "--json"]).run().expect_code(125).json();
    let ran =
        home.call(["run", "--backend", "docker", "--runtime", "python", "--", "echo", "there"]).succeed();

    assert_eq!(brought["images"][0]["reference"], name);
    assert_eq!(brought["failed"][0]["image"], format!("{REGISTRY}/coracle-ruby:latest"));
    assert_eq!(brought["failed"][0]["kind"], "image_not_found");
    assert_eq!((ran.text(), ran.stderr.contains("Pull")), ("there\n", false));
}
