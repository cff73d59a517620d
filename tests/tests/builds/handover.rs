//! Images for native sandboxes, built by Docker, Podman or buildah.

use std::os::unix::fs::PermissionsExt;

use coracle_tests::engines::{TEST_IMAGE, docker};
use coracle_tests::{Home, requires};
use tempfile::TempDir;

use crate::workshop::{context, home};

/// Returns a search path on which the first `buildah` is this script.
fn path_with(script: &str) -> (TempDir, String) {
    let directory = tempfile::tempdir().expect("a directory can be made");
    let program = directory.path().join("buildah");
    std::fs::write(&program, script).expect("ours");
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).expect("ours");
    let path = format!("{}:{}", directory.path().display(), std::env::var("PATH").unwrap_or_default());
    (directory, path)
}

const BROKEN: &str = "#!/bin/sh\nexit 1\n";

#[test]
fn an_engine_builds_for_the_native_backend() {
    requires!(docker);
    let home = home(docker());
    let context = context(&format!("FROM {TEST_IMAGE}\nRUN echo built > /made\n"), &[]);
    let directory = context.path().to_str().expect("UTF-8");
    // Where `buildah` is installed it would be asked first.
    let (_programs, path) = path_with(BROKEN);
    let build = ["image", "build", "--backend", "native", "-t", "localhost/handed:1", directory, "--json"];

    let told = home.call(build).env("PATH", path).succeed().json();
    let ran =
        home.call(["run", "--backend", "native", "--image", "localhost/handed:1", "--", "cat", "/made"]);

    assert_eq!((&told["built_by"], &told["reference"]), (&"docker".into(), &"localhost/handed:1".into()));
    assert_eq!(ran.succeed().text(), "built\n");
}

#[test]
fn where_nothing_builds_the_hint_says_what_would() {
    requires!(native);
    let home = Home::new().env("DOCKER_HOST", "unix:///nowhere/docker.sock");
    let context = context("FROM scratch\n", &[]);
    let directory = context.path().to_str().expect("UTF-8");

    let (_programs, path) = path_with(BROKEN);
    let build = ["image", "build", "--backend", "native", "-t", "localhost/never:1", directory, "--json"];
    let nowhere = home.call(build).env("PATH", path).env("CONTAINER_HOST", "unix:///nowhere/podman.sock");
    let error = nowhere.run().error();

    assert_eq!(error["kind"], "not_available", "{error}");
    assert!(
        error["hint"].as_str().is_some_and(|hint| hint.contains("buildah") && hint.contains("Docker")),
        "{error}"
    );
}

#[test]
fn buildah_builds_where_there_is_no_engine() {
    requires!(buildah);
    let home = Home::new().env("DOCKER_HOST", "unix:///nowhere/docker.sock");
    let real = std::process::Command::new("sh").args(["-c", "command -v buildah"]).output().expect("a shell");
    let real = String::from_utf8(real.stdout).expect("text");
    // Its own storage, and the runtime that works on every kernel we test on.
    let script = format!(
        "#!/bin/sh\nexport BUILDAH_RUNTIME=runc\nexec {} --root {store}/root --runroot {store}/run \
         --storage-driver vfs \"$@\"\n",
        real.trim(),
        store = home.path().join("buildah").display()
    );
    let (_programs, path) = path_with(&script);
    let limit = "cat /sys/fs/cgroup/memory/memory.limit_in_bytes || cat /sys/fs/cgroup/memory.max";
    let built =
        context(&format!("FROM scratch\nARG WORD\nCOPY bin /bin\nRUN echo $WORD > /word; {limit}\n"), &[]);
    let failing = context("FROM scratch\nCOPY bin /bin\nRUN exit 4\n", &[]);
    for context in [&built, &failing] {
        std::fs::create_dir(context.path().join("bin")).expect("ours");
        std::fs::copy("/bin/busybox", context.path().join("bin/sh"))
            .expect("Debian's package `busybox-static`");
        std::os::unix::fs::symlink("sh", context.path().join("bin/cat")).expect("ours");
    }
    let build = |directory: &TempDir| {
        let directory = directory.path().to_str().expect("UTF-8");
        let words = ["image", "build", "--backend", "native", "-t", "localhost/b:1", directory, "--json"];
        let flags = ["--build-arg", "WORD=hello", "--memory", "64m"];
        home.call(words.iter().chain(&flags)).env("PATH", &path)
    };

    let refused = build(&failing).run().error();
    let told = build(&built).succeed();
    let ran =
        home.call(["run", "--backend", "native", "--image", "localhost/b:1", "--", "cat", "/word"]).succeed();

    assert_eq!(refused["details"]["step"], "STEP 3/3: RUN exit 4", "{refused}");
    assert_eq!((refused["kind"].as_str(), ran.text()), (Some("execution_failed"), "hello\n"));
    assert_eq!(told.json()["built_by"], "native");
    assert!(told.stderr.contains("67108864"), "{}", told.stderr);
}
