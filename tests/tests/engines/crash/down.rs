//! A container engine that is down: every call says so soon, and coracle forgets nothing.

use std::time::Duration;

use coracle_tests::engines::relay::Relay;
use coracle_tests::engines::{Containers, Ending, TEST_IMAGE};
use coracle_tests::{Finished, Home, requires};

use super::site::{Site, engine};

/// How long a call may take while the engine is down.
const AT_ONCE: Duration = Duration::from_secs(12);

#[track_caller]
fn expect_told(finished: Finished) {
    assert!(finished.elapsed < AT_ONCE, "it took {:?}: {finished}", finished.elapsed);
    let error = finished.error();
    assert_eq!(error["kind"], "not_available", "{error}");
    assert!(error["hint"].as_str().is_some_and(|hint| !hint.is_empty()), "nothing to do about it: {error}");
}

#[test]
fn without_an_engine_a_run_is_told_what_to_do() {
    requires!(docker);
    let home = Home::new().env("DOCKER_HOST", "unix:///nonexistent/engine.sock");

    let run = ["run", "--json", "--backend", "docker", "--image", TEST_IMAGE, "--", "true"];
    let told = home.call(run).run();

    assert!(told.stdout_bytes > 0 || told.stderr.contains("DOCKER_HOST"), "{told}");
    expect_told(told);
}

#[test]
fn nothing_is_lost_or_forgotten_while_the_engine_is_down() {
    requires!(docker);
    let engine = engine(Containers::Live);
    let relay = Relay::to(&engine.socket()).expect("a port is free");
    let site = Site::through(&engine, &relay.address());
    let (stays, goes) = (site.open(), site.open());
    site.call(&["exec", &stays, "--id", "done", "--", "echo", "said"]).succeed();
    engine.stop(Ending::Killed);

    expect_told(site.call(&["exec", &stays, "--json", "--", "true"]).run());
    expect_told(site.call(&["logs", &stays, "done", "--json"]).run());
    expect_told(site.call(&["close", &goes, "--json"]).run());
    let shown = site.call(&["show", &stays, "--json"]).succeed();
    let listed = site.call(&["ps", "--json"]).succeed();
    let swept = site.call(&["gc", "--json"]).run().expect_code(1);
    let doctor = site.call(&["doctor", "--orphans", "--json"]).run().expect_code(1);

    assert_eq!(shown.json()["state"], "ready", "{shown}");
    assert!(shown.elapsed < AT_ONCE && listed.elapsed < AT_ONCE && swept.elapsed < AT_ONCE);
    let trouble = swept.json()["trouble"].clone();
    let about = |word: &str| {
        let lines = trouble.as_array().into_iter().flatten();
        lines.filter(|line| line.to_string().contains(word)).count()
    };
    assert_eq!(about("docker: "), 1, "that the engine does not answer is said once: {trouble}");
    assert!(doctor.json()["trouble"].to_string().contains("docker"), "{doctor}");
    assert_eq!(site.state(&stays), "ready");
    assert_eq!(site.state(&goes), "destroy_failed", "what is not gone is not called gone");

    engine.begin().expect("an engine starts again");
    site.expect_only(&[&stays]);
    assert_eq!(site.state(&goes), "destroyed");
    assert_eq!(site.call(&["logs", &stays, "done"]).succeed().text(), "said\n");
    site.expect_all_gone();
}

#[test]
fn commands_are_reached_by_their_socket_though_the_engine_is_down() {
    requires!(docker);
    let engine = engine(Containers::Live);
    let site = Site::at(&engine);
    let sandbox = site.open();
    engine.stop(Ending::Killed);

    assert_eq!(site.exec(&sandbox, "echo works").succeed().text(), "works\n");

    engine.begin().expect("an engine starts again");
    site.expect_only(&[&sandbox]);
    site.expect_all_gone();
}

#[test]
fn a_sandbox_on_an_engine_outlives_a_change_of_the_address() {
    requires!(docker);
    let (engine, other) = (engine(Containers::End), engine(Containers::End));
    let site = Site::at(&engine);
    let sandbox = site.open();
    let elsewhere = |words: &[&str]| site.call(words).env("DOCKER_HOST", other.address());

    elsewhere(&["gc"]).succeed();
    let closed = elsewhere(&["close", &sandbox, "--json"]).run().error();

    assert_eq!(closed["kind"], "not_available", "{closed}");
    assert!(closed.to_string().contains(&engine.address()), "it does not say where: {closed}");
    assert_eq!(site.engine.containers("coracle.sandbox").len(), 1, "it is still there");
    site.expect_only(&[]);
    assert_eq!(site.state(&sandbox), "destroyed");
}

#[test]
fn another_engine_behind_the_same_socket_is_given_the_guest() {
    requires!(docker);
    let (engine, other) = (engine(Containers::End), engine(Containers::End));
    let directory = tempfile::tempdir().expect("a directory can be made");
    let socket = directory.path().join("engine.sock");
    std::os::unix::fs::symlink(engine.socket(), &socket).expect("a link can be made");
    let site = Site::through(&engine, &format!("unix://{}", socket.display()));
    let sandbox = site.open();

    std::fs::remove_file(&socket).expect("the link is ours");
    std::os::unix::fs::symlink(other.socket(), &socket).expect("a link can be made");
    let ran = site.run("echo works").expect_code(0);
    assert_eq!(ran.text(), "works\n");
    site.call(&["gc"]).succeed();
    assert_eq!(site.state(&sandbox), "lost", "as far as coracle can know");

    std::fs::remove_file(&socket).expect("the link is ours");
    std::os::unix::fs::symlink(engine.socket(), &socket).expect("a link can be made");
    site.expect_only(&[]);
    site.expect_all_gone();
}
