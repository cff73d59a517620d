//! Directories with a Dockerfile, and homes that know a container engine.

use std::path::Path;

use coracle_tests::engines::{Engine, Kind};
use coracle_tests::{Call, Home};
use tempfile::TempDir;

/// A directory with a Dockerfile and other files in it.
pub fn context(dockerfile: &str, files: &[(&str, &str)]) -> TempDir {
    let directory = tempfile::tempdir().expect("a directory can be made");
    for (name, text) in [("Dockerfile", dockerfile)].iter().chain(files) {
        let path = directory.path().join(name);
        std::fs::create_dir_all(path.parent().expect("it is in the directory")).expect("ours");
        std::fs::write(path, text).expect("ours");
    }
    directory
}

/// Returns a home whose calls reach an engine.
pub fn home(engine: &Engine) -> Home {
    Home::new().env(engine.variable(), engine.address())
}

pub fn backend(engine: &Engine) -> &'static str {
    match engine.kind() {
        Kind::Docker => "docker",
        Kind::Podman => "podman",
    }
}

/// Prepares a build.
pub fn build(home: &Home, engine: &Engine, tag: &str, context: &Path, flags: &[&str]) -> Call {
    let directory = context.to_str().expect("temporary paths are UTF-8");
    let words = ["image", "build", "--backend", backend(engine), "-t", tag, directory];
    home.call(words.iter().chain(flags))
}

/// Runs a command in a container of an image, by the engine's own client.
pub fn run(engine: &Engine, image: &str, command: &[&str]) -> String {
    let words = ["run", "--rm", "--network", "none", image];
    let output =
        engine.client(words.iter().chain(command)).output().expect("Docker's command line is installed");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

/// Returns the ids of all containers there are, running or not.
pub fn containers(engine: &Engine) -> Vec<String> {
    let listed = engine.document("/containers/json?all=1");
    let listed = listed.as_array().into_iter().flatten();
    listed.filter_map(|container| container["Id"].as_str().map(str::to_owned)).collect()
}
