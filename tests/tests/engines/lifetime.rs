//! On a container engine commands and sandboxes end as on `native`: with their client, when stopped, when idle.

use std::time::Duration;

use coracle_tests::engines::relay::Relay;
use coracle_tests::engines::{Engine, TEST_IMAGE, docker, podman};
use coracle_tests::{Home, SOON, Started, eventually, requires};
use rustix::process::Signal;
use serde_json::json;

/// A second, and what a machine as busy as they get may add. Without a tie it is minutes.
const AT_ONCE: Duration = Duration::from_secs(8);

fn flags(engine: &Engine) -> [&'static str; 4] {
    let backend = if engine.variable() == "DOCKER_HOST" { "docker" } else { "podman" };
    ["--backend", backend, "--image", TEST_IMAGE]
}

fn stubborn(word: &str) -> String {
    format!("trap '' TERM HUP INT; sleep {word} & echo started; while :; do sleep {word}; done")
}

fn open(home: &Home, engine: &Engine, more: &[&str]) -> String {
    home.open_with(&[&flags(engine)[..], more].concat())
}

fn started(home: &Home, words: &[&str], word: &str) -> Started {
    let started = home.call([words, &["--", "sh", "-c", &stubborn(word)]].concat()).start();
    started.wait_for(|output| output.starts_with(b"started"));
    assert!(home.census().named(word).len() >= 2, "{}", home.census().describe());
    started
}

fn expect_dead(home: &Home, word: &str) {
    let took = eventually(SOON, || home.census().named(word).is_empty());
    assert!(took.is_some_and(|took| took < AT_ONCE), "{took:?}: {}", home.census().describe());
}

fn expect_endings(engine: &'static Engine) {
    let home = Home::new().at(engine);
    let sandbox = open(&home, engine, &[]);

    started(&home, &["exec", &sandbox], "801.1").kill();
    expect_dead(&home, "sleep 801.1");
    let script = "sleep 801.2 & echo leader";
    home.call(["exec", &sandbox, "--keep-background", "--id", "kept", "--", "sh", "-c", script]).succeed();
    assert!(!home.census().named("sleep 801.2").is_empty());
    home.call(["stop", &sandbox, "kept"]).succeed();
    assert!(home.census().named("sleep 801.2").is_empty(), "{}", home.census().describe());
    home.call(["close", &sandbox]).succeed();

    let run = [&["run"], &flags(engine)[..]].concat();
    started(&home, &run, "801.3").kill();
    let took = eventually(SOON, || home.census().processes.is_empty());
    assert!(took.is_some_and(|took| took < AT_ONCE), "{took:?}: {}", home.census().describe());
    // An engine needs a moment to see that the processes of a container are gone.
    let cleared = eventually(SOON, || {
        home.call(["gc"]).succeed();
        home.call(["doctor", "--orphans"]).run().code() == Some(0)
    });
    assert!(cleared.is_some());
    home.expect_no_orphans();
}

#[test]
fn a_command_and_a_run_end_with_their_client_on_docker() {
    requires!(docker);

    expect_endings(docker());
}

#[test]
fn a_command_and_a_run_end_with_their_client_on_podman() {
    requires!(podman);

    expect_endings(podman());
}

#[test]
fn a_command_ends_on_docker_with_a_client_that_is_asked_to_has_its_pipe_closed_or_times_out() {
    requires!(docker);
    let home = docker().home();
    let sandbox = home.open();

    for (signal, word) in [(Signal::TERM, "803.1"), (Signal::HUP, "803.2")] {
        let client = started(&home, &["exec", &sandbox, "--timeout", "none"], word);
        client.signal(signal);
        client.finish();
        expect_dead(&home, word);
    }

    let first = home.exec(&sandbox, ["yes"]).through(["sh", "-c", "\"$@\" | head -1", "sh"]).succeed();
    assert_eq!(first.text(), "y\n");
    expect_dead(&home, "yes ");

    // As often as it takes until the command was started within the second.
    let stubborn = stubborn("803.3");
    let timed = || home.exec(&sandbox, ["sh", "-c", &stubborn]).through(["timeout", "1"]).run();
    let ran = eventually(SOON, || timed().expect_code(124).text() == "started\n");
    assert!(ran.is_some());
    expect_dead(&home, "803.3");
}

fn expect_expiry(engine: &'static Engine) {
    let home = Home::new().at(engine);
    let idle = ["--ttl", "2s", "--key", "idle", "--on-idle", "destroy"];
    let sandbox = open(&home, engine, &idle);
    // A background process that is kept counts as use.
    let script = "sleep 6.5 >/dev/null 2>&1 & exit 0";
    home.call(["exec", &sandbox, "--keep-background", "--", "sh", "-c", script]).succeed();
    eventually(SOON, || home.census().named("sleep 6.5").is_empty()).expect("it ends");

    eventually(SOON, || home.census().guests().is_empty()).expect("it is idle now");
    let other = open(&home, engine, &["--key", "idle", "--on-idle", "destroy"]);

    assert_ne!(other, sandbox, "its key is free at once");
    let record = home.call(["show", &sandbox, "--json"]).succeed().json();
    assert_eq!(record["state"], "expired", "{record}");
    let (since, made) = (record["idle_since"].as_u64(), record["created_at"].as_u64());
    assert!(since >= made.map(|made| made + 5_000), "the process ran for six seconds: {record}");
    // A killed container was not idle.
    home.census().processes.iter().filter(|process| process.is_guest()).for_each(|guest| guest.kill());
    let lost =
        eventually(SOON, || home.call(["show", &other, "--json"]).succeed().json()["state"] == json!("lost"));
    assert!(lost.is_some());
}

#[test]
fn an_idle_sandbox_expires_and_a_killed_one_is_lost_on_docker() {
    requires!(docker);

    expect_expiry(docker());
}

#[test]
fn an_idle_sandbox_expires_and_a_killed_one_is_lost_on_podman() {
    requires!(podman);

    expect_expiry(podman());
}

/// Where the engine carries the streams, only time tells a client that died from one whose connection broke.
#[test]
fn a_command_reached_through_its_engine_ends_some_time_after_its_client() {
    requires!(docker);
    let relay = Relay::to(&docker().socket()).expect("a port is free");
    let home = Home::new().at(docker()).env("DOCKER_HOST", relay.address());
    let sandbox = open(&home, docker(), &[]);

    started(&home, &["exec", &sandbox, "--timeout", "none"], "802.1").kill();

    let took = eventually(Duration::from_secs(90), || home.census().named("sleep 802.1").is_empty());
    assert!(took.is_some(), "{}", home.census().describe());
    home.call(["close", &sandbox]).succeed();
}
