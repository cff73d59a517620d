//! A sandbox on a container engine sleeps in its stopped container and wakes with all its files.

use coracle_tests::engines::relay::Relay;
use coracle_tests::engines::{Containers, Ending, Engine, Kind, Storage, TEST_IMAGE, docker, image, podman};
use coracle_tests::{Home, SOON, count, eventually, requires};
use serde_json::{Value, json};

/// Short, and long enough that a command comes before it has passed on a busy machine.
const IDLE: &str = "2s";

/// Writes to every place a sandbox keeps files in.
const WRITE: &str = "mkdir empty; echo work > note; echo kept > /tmp/scratch; ln -s note link; chmod 640 note
    mkdir -p /opt/own; echo system > /opt/own/added; rm /usr/bin/env";
/// Shows all of it.
const READ: &str = "cat note /tmp/scratch link /opt/own/added; stat -c %a note; ls -d empty
    ls -d /usr/bin/env 2>/dev/null || echo removed";
const FILES: &str = "work\nkept\nwork\nsystem\n640\nempty\nremoved\n";

fn open(home: &Home, engine: &Engine, more: &[&str]) -> String {
    let backend = if engine.variable() == "DOCKER_HOST" { "docker" } else { "podman" };
    let flags = ["--backend", backend, "--image", TEST_IMAGE];
    home.open_with(&[&flags[..], more].concat())
}

fn show(home: &Home, sandbox: &str) -> Value {
    home.call(["show", sandbox, "--json"]).succeed().json()
}

fn shell(home: &Home, sandbox: &str, script: &str) -> String {
    home.exec(sandbox, ["sh", "-c", script]).succeed().text().to_owned()
}

fn wait_for_the_end_of_its_guest(home: &Home) {
    let ended = eventually(SOON, || home.census().guests().is_empty());
    assert!(ended.is_some(), "{}", home.census().describe());
}

fn kill_its_guest(home: &Home) {
    home.census().processes.iter().filter(|process| process.is_guest()).for_each(|guest| guest.kill());
    wait_for_the_end_of_its_guest(home);
}

/// Waits until a sandbox is recorded as asleep: the engine has to see first that its container ended.
fn wait_until_it_sleeps(home: &Home, sandbox: &str) -> Value {
    let asleep = eventually(SOON, || {
        home.call(["gc"]).run();
        show(home, sandbox)["state"] == "hibernated"
    });
    let record = show(home, sandbox);
    assert!(asleep.is_some(), "{record}");
    record
}

fn expect_all_gone(home: &Home) {
    let gone = eventually(SOON, || {
        home.call(["gc"]).run();
        home.census().is_empty()
    });
    assert!(gone.is_some(), "{}", home.census().describe());
    home.expect_no_orphans();
}

/// Goes through lives that end by `end`, and looks for every byte in the next.
fn expect_lives(engine: &'static Engine, more: &[&str], lives: usize, end: impl Fn(&Home)) {
    let home = Home::new().at(engine);
    let sandbox = open(&home, engine, &[&["--key", "sleeper", "--run", "run_a"], more].concat());
    let exec = |script: &str| {
        let call = ["exec", "sleeper", "--run", "run_a", "--epoch", "1", "--", "sh", "-c", script];
        home.call(call).succeed().text().to_owned()
    };
    exec(WRITE);

    for life in 0..lives {
        exec(&format!("echo {life} >> lives"));
        end(&home);
        // By the janitor, and by its first use.
        if life % 2 == 0 {
            let asleep = wait_until_it_sleeps(&home, &sandbox);
            assert_eq!(asleep["kept"]["at"], "place", "{asleep}");
            home.expect_no_orphans();
        }
        let found = home.call(["open", "--key", "sleeper", "--run", "run_a"]).succeed();
        assert_eq!(found.text().trim(), sandbox);
    }

    assert_eq!(exec(READ), FILES);
    assert_eq!(exec("cat lives"), (0..lives).map(|life| format!("{life}\n")).collect::<String>());
    let awake = show(&home, &sandbox);
    assert_eq!((&awake["state"], &awake["epoch"]), (&json!("ready"), &json!(1)), "{awake}");
    assert!(awake["life"].as_u64() > Some(lives as u64), "{awake}");
    home.call(["close", &sandbox, "--run", "run_a"]).succeed();
    expect_all_gone(&home);
}

#[test]
fn an_idle_sandbox_on_docker_wakes_with_every_file() {
    requires!(docker);

    expect_lives(docker(), &["--ttl", IDLE], count(2, 50), wait_for_the_end_of_its_guest);
}

#[test]
fn a_killed_guest_on_docker_costs_no_file() {
    requires!(docker);

    expect_lives(docker(), &[], count(2, 50), kill_its_guest);
}

#[test]
fn an_idle_sandbox_on_podman_wakes_with_every_file() {
    requires!(podman);

    expect_lives(podman(), &["--ttl", IDLE], count(1, 10), wait_for_the_end_of_its_guest);
}

#[test]
fn a_killed_guest_on_podman_costs_no_file() {
    requires!(podman);

    expect_lives(podman(), &[], count(2, 10), kill_its_guest);
}

#[test]
fn of_twenty_callers_one_wakes_a_sandbox_on_docker() {
    requires!(docker);
    let home = Home::new().at(docker());
    let sandbox = open(&home, docker(), &[]);
    shell(&home, &sandbox, "echo work > note");
    kill_its_guest(&home);

    let calls: Vec<_> = (0..20).map(|_| home.exec(&sandbox, ["cat", "note"]).start()).collect();
    for call in calls {
        assert_eq!(call.finish().expect_code(0).text(), "work\n");
    }

    assert_eq!(show(&home, &sandbox)["life"], 2);
    assert_eq!(home.census().guests().len(), 1, "{}", home.census().describe());
}

#[test]
fn a_sandbox_reached_through_its_engine_sleeps_and_wakes() {
    requires!(docker);
    let relay = Relay::to(&docker().socket()).expect("a port is free");
    let home = Home::new().at(docker()).env("DOCKER_HOST", relay.address());
    let sandbox = open(&home, docker(), &["--network", "allow=ok.test"]);
    shell(&home, &sandbox, "echo work > note");

    kill_its_guest(&home);

    assert_eq!(shell(&home, &sandbox, "cat note"), "work\n");
    home.call(["close", &sandbox]).succeed();
    expect_all_gone(&home);
}

#[test]
fn others_who_end_a_container_put_its_sandbox_to_sleep_and_who_removes_it_loses_the_files() {
    requires!(docker);
    let home = Home::new().at(docker());
    let sandbox = open(&home, docker(), &[]);
    shell(&home, &sandbox, "echo work > note");
    let container = format!("coracle-{sandbox}");
    let order = |words: &[&str]| {
        let done =
            docker().client([words, &[&container]].concat()).output().expect("its command line is here");
        assert!(done.status.success(), "{words:?}: {}", String::from_utf8_lossy(&done.stderr));
    };

    for words in [&["kill"][..], &["stop", "--time", "1"], &["restart", "--time", "1"]] {
        order(words);
        assert_eq!(shell(&home, &sandbox, "cat note"), "work\n", "{words:?}");
    }
    order(&["kill"]);
    wait_until_it_sleeps(&home, &sandbox);
    // A container that somebody starts has a guest without a plan: no caller was let in by that.
    order(&["start"]);
    wait_for_the_end_of_what_others_started(&home);
    assert_eq!(shell(&home, &sandbox, "cat note"), "work\n");
    kill_its_guest(&home);
    wait_until_it_sleeps(&home, &sandbox);
    order(&["rm", "-f"]);

    let lost = home.call(["exec", &sandbox, "--json", "--", "true"]).run().error();
    assert_eq!(lost["details"]["state"], "lost", "{lost}");
    home.call(["close", &sandbox]).succeed();
    expect_all_gone(&home);
}

fn wait_for_the_end_of_what_others_started(home: &Home) {
    let ended = eventually(SOON, || {
        home.call(["gc"]).run();
        home.census().guests().is_empty()
    });
    assert!(ended.is_some(), "{}", home.census().describe());
}

#[test]
fn a_sleeper_is_left_alone_by_who_asks_another_engine() {
    requires!(docker);
    let home = Home::new().at(docker());
    let sandbox = open(&home, docker(), &[]);
    shell(&home, &sandbox, "echo work > note");
    kill_its_guest(&home);
    wait_until_it_sleeps(&home, &sandbox);
    let relay = Relay::to(&docker().socket()).expect("a port is free");

    let elsewhere = |words: &[&str]| home.call(words).env("DOCKER_HOST", relay.address());
    elsewhere(&["gc"]).succeed();
    let refused = elsewhere(&["exec", &sandbox, "--json", "--", "true"]).run();

    assert_eq!(refused.error_kind(), "not_available");
    assert_eq!(show(&home, &sandbox)["state"], "hibernated");
    assert_eq!(shell(&home, &sandbox, "cat note"), "work\n");
}

#[test]
fn a_directory_that_was_exchanged_while_its_sandbox_slept_is_not_mounted() {
    requires!(docker);
    let home = Home::new().at(docker());
    let tree = tempfile::tempdir().expect("a directory can be made");
    let (project, secret, aside) =
        (tree.path().join("project"), tree.path().join("secret"), tree.path().join("aside"));
    for (path, text) in [(&project, "code"), (&secret, "secret")] {
        std::fs::create_dir(path).and_then(|()| std::fs::write(path.join("file"), text)).expect("it is ours");
    }
    let workspace = project.display().to_string();
    let sandbox = open(&home, docker(), &["--workspace", &workspace, "-v", "data:/data"]);
    shell(&home, &sandbox, "echo made > made; echo kept > /data/file");
    kill_its_guest(&home);
    std::fs::rename(&project, &aside).expect("it is ours");
    std::os::unix::fs::symlink(&secret, &project).expect("it is ours");

    let refused = home.call(["exec", &sandbox, "--json", "--", "cat", "file"]).run();
    assert!(!refused.text().contains("secret"), "{refused}");
    assert_eq!(refused.error_kind(), "conflict");
    std::fs::remove_file(&project).and_then(|()| std::fs::rename(&aside, &project)).expect("it is ours");

    assert_eq!(shell(&home, &sandbox, "cat file made /data/file"), "codemade\nkept\n");
    home.call(["close", &sandbox]).succeed();
}

#[test]
fn a_sleeper_survives_the_end_of_its_engine_and_so_does_one_that_was_awake() {
    requires!(docker);
    for containers in [Containers::End, Containers::Live] {
        let engine = Engine::start(Kind::Docker, Storage::Memory, containers).expect("an engine starts");
        engine.load(image::archive());
        let home = Home::new().env("DOCKER_HOST", engine.address());
        let (asleep, awake) = (open(&home, &engine, &[]), open(&home, &engine, &[]));
        shell(&home, &asleep, "echo asleep > note");
        shell(&home, &awake, "echo awake > note");

        for ending in [Ending::Killed, Ending::Asked] {
            let kill = ["kill", &format!("coracle-{asleep}")];
            assert!(engine.client(kill).output().expect("its command line is here").status.success());
            wait_until_it_sleeps(&home, &asleep);
            engine.stop(ending);
            let refused = home.call(["exec", &asleep, "--json", "--", "true"]).run().error();
            assert_eq!(refused["kind"], "not_available", "{containers:?} {ending:?}: {refused}");
            engine.begin().expect("an engine starts again");

            let read = |sandbox: &str| shell(&home, sandbox, "cat note");
            assert_eq!((read(&awake), read(&asleep)), ("awake\n".into(), "asleep\n".into()), "{ending:?}");
        }
        home.call(["close", &asleep, &awake]).succeed();
    }
}

#[test]
fn a_sleeper_on_docker_can_be_closed_and_purged() {
    requires!(docker);
    let home = Home::new().at(docker());
    let (closed, purged) = (open(&home, docker(), &[]), open(&home, docker(), &[]));
    kill_its_guest(&home);
    for sandbox in [&closed, &purged] {
        wait_until_it_sleeps(&home, sandbox);
    }

    home.call(["close", &closed]).succeed();
    assert_eq!(show(&home, &closed)["state"], "destroyed");
    assert_eq!(show(&home, &purged)["state"], "hibernated");
    home.call(["purge", "--yes"]).succeed();

    home.expect_nothing_left();
}
