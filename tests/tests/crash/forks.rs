//! A fork that is killed at each crash point in turn: the parent is whole, and there is no half child.

use coracle_tests::{Home, SOON, count, eventually, requires};
use std::panic::catch_unwind;

/// Points that only a fork of what is idle reaches, and only one of what runs.
const IDLE_ONLY: &[&str] = &["native.fork.entered", "native.fork.layered"];
const BUSY_ONLY: &[&str] = &["native.fork.copied"];

/// What a fork goes through, making its children included.
fn points() -> Vec<&'static str> {
    let engine = coracle_engine::CRASH_POINTS.iter().filter(|point| {
        point.starts_with("fork.") || (point.starts_with("create.") && **point != "create.row.before")
    });
    let native = coracle_backends::CRASH_POINTS
        .iter()
        .filter(|point| point.starts_with("native.fork") || point.starts_with("native.create"));
    engine.chain(native).copied().collect()
}

fn files(home: &Home, sandbox: &str) -> String {
    home.exec(sandbox, ["sh", "-c", "cat f; ls | wc -l"]).succeed().text().to_owned()
}

fn survive(point: &str, busy: bool) {
    let home = Home::new();
    // With a network, so that the points of keepers are reached, too.
    let parent = home.open_with(&["--network", "allow=ok.test"]);
    home.exec(&parent, ["sh", "-c", "echo kept > f; for i in $(seq 50); do echo $i > $i; done"]).succeed();
    if busy {
        home.call(["exec", &parent, "--detach", "--id", "e", "--", "sleep", "600"]).succeed();
    }
    let before = files(&home, &parent);

    let killed = home.call(["fork", &parent, "--count", "2"]).env("CORACLE_CRASH_AT", point).run();
    assert!(killed.was_killed(), "{point} was not reached: {killed}");
    home.call(["gc"]).succeed();

    home.expect_no_orphans();
    // What was ready before the kill is a sandbox like any other.
    for record in home.live().iter().filter(|record| record["sandbox_id"] != parent.as_str()) {
        assert_eq!((&record["state"], &record["forked_from"]), (&"ready".into(), &parent.as_str().into()));
        let child = record["sandbox_id"].as_str().expect("a record has an id");
        assert_eq!(files(&home, child), before, "{point}: a child is whole or not at all");
        home.call(["close", child]).succeed();
    }
    assert_eq!(files(&home, &parent), before, "{point}");
    let again = home.call(["fork", &parent, "--json"]).succeed().json();
    let child = again["sandbox_ids"][0].as_str().expect("a fork has an id").to_owned();
    home.exec(&parent, ["sh", "-c", "echo more > f"]).succeed();
    assert_eq!(files(&home, &child), before, "{point}: it can be forked after all");
    home.call(["close", &child]).succeed();
    home.call(["close", &parent]).succeed();
    home.expect_nothing_left();
    eventually(SOON, || !has_devices(&home)).expect("no device is left");
}

fn has_devices(home: &Home) -> bool {
    let home = home.path().to_string_lossy().into_owned();
    let devices = std::fs::read_dir("/sys/block").expect("there is a /sys").flatten();
    let mut files =
        devices.filter_map(|entry| std::fs::read_to_string(entry.path().join("loop/backing_file")).ok());
    files.any(|file| file.contains(&home))
}

#[test]
fn a_kill_at_any_point_of_a_snapshot_is_survived() {
    requires!(native);
    for point in coracle_backends::CRASH_POINTS.iter().filter(|point| point.contains("snapshot.")) {
        let home = Home::new();
        let sandbox = home.open();
        home.exec(&sandbox, ["sh", "-c", "echo kept > f"]).succeed();

        let killed = home.call(["snapshot", &sandbox]).env("CORACLE_CRASH_AT", point).run();
        assert!(killed.was_killed(), "{point} was not reached: {killed}");
        home.call(["gc"]).succeed();

        home.expect_no_orphans();
        home.exec(&sandbox, ["true"]).succeed();
        // It is there whole, and works, or there is nothing of it.
        let listed = home.call(["image", "list", "--json"]).succeed().json();
        let images = listed.as_array().expect("a list").clone();
        let entries = std::fs::read_dir(home.path().join("snapshots")).map_or(0, Iterator::count);
        assert_eq!(entries, images.len(), "{point}: nothing half is left");
        for image in images {
            let image = image["reference"].as_str().expect("an image has a name").to_owned();
            let opened = home.open_with(&["--image", &image]);
            assert_eq!(home.exec(&opened, ["cat", "f"]).succeed().text(), "kept\n", "{point}");
        }
    }
}

#[track_caller]
fn survive_all(skipped: &[&str], busy: bool) {
    let mut points = points();
    points.retain(|point| !skipped.contains(point));
    // Some in an ordinary run, all in a full one.
    points = points.into_iter().step_by(count(3, 1)).collect();
    points.retain(|point| catch_unwind(|| survive(point, busy)).is_err());
    assert!(points.is_empty(), "a kill at these points is not survived: {points:?}");
}

#[test]
fn a_kill_at_any_point_of_a_fork_of_what_is_idle_is_survived() {
    requires!(native);

    survive_all(BUSY_ONLY, false);
}

#[test]
fn a_kill_at_any_point_of_a_fork_of_what_runs_is_survived() {
    requires!(native);

    survive_all(IDLE_ONLY, true);
}
