//! Builds by a container engine: the image, the output of steps, and failures.

use std::time::Duration;

use coracle_tests::engines::{Containers, Engine, Kind, Storage, TEST_IMAGE, docker, image, podman};
use coracle_tests::{eventually, requires};
use serde_json::Value;

use crate::workshop::{build, containers, context, home, run};

/// An engine takes a moment to notice that the client of a build is gone, and then ends a container.
const ENDED: Duration = Duration::from_secs(20);

/// Returns an engine that no other test uses, for tests that look at everything it has.
fn own_engine() -> Engine {
    let engine = Engine::start(Kind::Docker, Storage::Memory, Containers::End).expect("an engine starts");
    engine.load(image::archive());
    engine
}

fn builds_and_runs(engine: &Engine, tag: &str) {
    let home = home(engine);
    let dockerfile = "ARG NOTHING=scratch\nFROM $NOTHING\nARG WORD=none\nCOPY bin /bin\nCOPY src /src\n\
                      RUN echo \"$WORD\" > /word && cat /src/a\nENTRYPOINT [\"cat\"]\n";
    let context = context(dockerfile, &[("src/a", "from the context\n"), ("src/deep/b", "deep\n")]);
    std::fs::create_dir(context.path().join("bin")).expect("ours");
    std::fs::copy("/bin/busybox", context.path().join("bin/sh")).expect("Debian's package `busybox-static`");
    std::os::unix::fs::symlink("sh", context.path().join("bin/cat")).expect("ours");

    let built = build(&home, engine, tag, context.path(), &["--build-arg", "WORD=hello", "--json"]).succeed();

    let told = built.json();
    assert_eq!(told["reference"], tag);
    assert!(told["digest"].as_str().is_some_and(|digest| digest.starts_with("sha256:")), "{told}");
    // What the steps say comes while they say it, and beside the data.
    assert!(built.stderr.contains("from the context"), "{}", built.stderr);
    assert_eq!(run(engine, tag, &["/word", "/src/deep/b"]), "hello\ndeep\n");
}

#[test]
fn an_image_is_built_with_arguments_and_what_steps_say_is_passed_on() {
    requires!(docker);

    builds_and_runs(docker(), "localhost/built:1");
}

#[test]
fn podman_builds_the_same() {
    requires!(podman);

    builds_and_runs(podman(), "localhost/built:1");
}

#[test]
fn a_build_from_scratch_needs_nothing() {
    requires!(docker);
    let home = home(docker());
    let context = context("FROM scratch\nCOPY hello /hello\n", &[("hello", "x")]);

    let told = build(&home, docker(), "localhost/scratch:1", context.path(), &["--json"]).succeed().json();
    let listed = home.call(["image", "list", "--backend", "docker", "--json"]).succeed().json();

    let of_tag = |image: &&Value| image["reference"] == "localhost/scratch:1";
    let found = listed.as_array().expect("a list").iter().find(of_tag).expect("it is listed");
    assert_eq!((&found["digest"], &found["layers"]), (&told["digest"], &1.into()));
}

#[test]
fn a_failing_step_is_named_and_leaves_neither_image_nor_container() {
    requires!(docker);
    let (engine, dockerfile) =
        (own_engine(), format!("FROM {TEST_IMAGE}\nRUN echo before; exit 3\nRUN true\n"));
    let home = home(&engine);
    let context = context(&dockerfile, &[]);

    let error = build(&home, &engine, "localhost/failed:1", context.path(), &["--json"]).run().error();

    assert_eq!(error["kind"], "execution_failed", "{error}");
    assert_eq!(error["details"]["step"], "Step 2/3 : RUN echo before; exit 3");
    assert!(error["message"].as_str().is_some_and(|text| text.contains("non-zero code: 3")), "{error}");
    assert_eq!(containers(&engine), [""; 0]);
    let removed = home.call(["image", "remove", "--backend", "docker", "--json", "localhost/failed:1"]).run();
    assert_eq!(removed.error_kind(), "image_not_found");
}

#[test]
fn what_cannot_be_built_says_why() {
    requires!(docker);
    let home = home(docker());
    let kind = |dockerfile: &str, flags: &[&str]| {
        let context = context(dockerfile, &[]);
        let flags = [&["--json"], flags].concat();
        build(&home, docker(), "localhost/never:1", context.path(), &flags).run().error_kind()
    };

    assert_eq!(kind("FROM localhost:1/nowhere/at-all:1\n", &[]), "execution_failed");
    assert_eq!(kind("FRM scratch\n", &[]), "invalid");
    assert_eq!(kind("FROM scratch\n", &["--target", "nowhere"]), "invalid");
    assert_eq!(kind("FROM scratch\n", &["--memory", "3g"]), "unsupported");
    assert_eq!(kind("FROM scratch\n", &["-f", "/etc/passwd"]), "invalid");
    let buildkit = context(&format!("FROM {TEST_IMAGE}\nRUN --mount=type=cache,target=/c true\n"), &[]);
    let error = build(&home, docker(), "localhost/never:1", buildkit.path(), &["--json"]).run().error();
    assert!(error["hint"].as_str().is_some_and(|hint| hint.contains("buildx")), "{error}");
}

#[test]
fn a_dockerfile_of_another_name_and_a_stage_can_be_chosen() {
    requires!(docker);
    let home = home(docker());
    let stages =
        format!("FROM {TEST_IMAGE} AS first\nRUN echo first > /stage\nFROM first\nRUN echo last > /stage\n");
    let context = context("FROM scratch\n", &[("docker/Staged", &stages)]);
    let file = context.path().join("docker/Staged");
    let flags = ["-f", file.to_str().expect("UTF-8"), "--target", "first"];

    build(&home, docker(), "localhost/staged:1", context.path(), &flags).succeed();

    assert_eq!(run(docker(), "localhost/staged:1", &["cat", "/stage"]), "first\n");
}

#[test]
fn steps_are_bounded_in_memory_and_cpu() {
    requires!(docker);
    let home = home(docker());
    let look = "cat /sys/fs/cgroup/memory/memory.limit_in_bytes /sys/fs/cgroup/memory/memory.memsw.limit_in_bytes \
                /sys/fs/cgroup/cpu/cpu.cfs_quota_us 2>/dev/null || cat /sys/fs/cgroup/memory.max \
                /sys/fs/cgroup/memory.swap.max /sys/fs/cgroup/cpu.max";
    let dockerfile = format!("FROM {TEST_IMAGE}\nRUN ({look}) > /limits\n");
    let context = context(&dockerfile, &[]);

    let flags = ["--memory", "64m", "--cpus", "0.5", "--no-cache"];
    build(&home, docker(), "localhost/bounded:1", context.path(), &flags).succeed();

    let limits = run(docker(), "localhost/bounded:1", &["cat", "/limits"]);
    assert!(limits.lines().any(|line| line == "67108864"), "{limits}");
    assert!(limits.lines().any(|line| line.starts_with("50000")), "{limits}");
}

#[test]
fn a_step_that_wants_more_memory_than_it_may_have_fails() {
    requires!(docker);
    let home = home(docker());
    // As large as one block is what it keeps in memory.
    let dockerfile = format!("FROM {TEST_IMAGE}\nRUN dd if=/dev/zero of=/dev/null bs=200M count=1\n");
    let context = context(&dockerfile, &[]);

    let flags = ["--memory", "32m", "--json"];
    let error = build(&home, docker(), "localhost/greedy:1", context.path(), &flags).run().error();

    assert_eq!(error["kind"], "execution_failed", "{error}");
}

#[test]
fn a_build_ends_with_its_caller() {
    requires!(docker);
    let engine = own_engine();
    let home = home(&engine);
    let context = context(&format!("FROM {TEST_IMAGE}\nRUN sleep 1000\n"), &[]);
    let building = build(&home, &engine, "localhost/given-up:1", context.path(), &[]).start();
    eventually(ENDED, || !containers(&engine).is_empty()).expect("the step begins");

    building.kill();

    eventually(ENDED, || containers(&engine).is_empty()).expect("the engine ends it");
}
