//! A purge removes everything of its home, and nothing else.

use std::path::Path;

use coracle_tests::mcp::Client;
use coracle_tests::{Home, count, requires};
use serde_json::json;

/// Makes one of everything that can be on a machine.
fn fill(home: &Home) {
    let sandbox = home.open_with(&["--key", "kept"]);
    home.exec(&sandbox, ["sh", "-c", "echo x > file"]).succeed();
    home.open_with(&["--run", "run_other", "--mount", "cache:/cache"]);
    home.open_with(&["--network", "allow=ok.test"]);
    home.call(["snapshot", &sandbox]).succeed();
    let closed = home.open();
    home.exec(&closed, ["echo", "out"]).succeed();
    home.call(["close", &closed]).succeed();
}

fn loop_devices(home: &Path) -> usize {
    let devices = std::fs::read_dir("/sys/block").into_iter().flatten().flatten();
    let backing =
        devices.filter_map(|device| std::fs::read_to_string(device.path().join("loop/backing_file")).ok());
    backing.filter(|file| file.starts_with(&*home.to_string_lossy())).count()
}

#[track_caller]
fn expect_no_trace(home: &Home) {
    home.expect_nothing_left();
    assert_eq!(loop_devices(home.path()), 0);
    assert!(!home.path().exists(), "the home is left");
}

#[test]
fn everything_is_gone_and_another_instance_lives_on() {
    requires!(native);
    let (home, other) = (Home::new(), Home::new());
    fill(&home);
    let neighbour = other.open();
    assert!(home.instance().is_some());

    let told = home.call(["purge", "--yes", "--json"]).succeed().json();

    assert_eq!(
        (&told["purged"], &told["sandboxes"], &told["volumes"]),
        (&true.into(), &3.into(), &1.into()),
        "{told}"
    );
    expect_no_trace(&home);
    other.exec(&neighbour, ["true"]).succeed();
    // Again is fine, and says that there was nothing.
    let again = home.call(["purge", "--yes"]).succeed();
    assert!(again.text().starts_with("nothing to remove: there is no home at"), "{again}");
}

#[test]
fn a_kill_in_the_middle_is_finished_by_doing_it_again() {
    requires!(native);
    let points = coracle_engine::crash::PURGE_CRASH_POINTS
        .iter()
        .chain(&["native.destroy.killed", "destroy.backend.after"]);
    for point in points.take(count(3, 4)) {
        let home = Home::new();
        fill(&home);
        assert!(home.instance().is_some());
        let killed = home.call(["purge", "--yes"]).env("CORACLE_CRASH_AT", point).run();
        assert!(killed.was_killed(), "{point}: {killed}");

        home.call(["purge", "--yes"]).succeed();

        expect_no_trace(&home);
    }
}

#[test]
fn a_home_that_is_half_removed_is_removed_by_doing_it_again() {
    requires!(native);
    let home = Home::new();
    fill(&home);
    for record in home.live() {
        let (id, owner) = (record["sandbox_id"].as_str(), record["owner"].as_str());
        home.call(["close", id.expect("an id"), "--run", owner.expect("an owner")]).succeed();
    }
    for name in ["sandboxes", "images", "locks", "logs"] {
        std::fs::remove_dir_all(home.path().join(name)).expect("it is there");
    }
    std::fs::remove_file(home.path().join("coracle.db-wal")).expect("it is there");

    home.call(["purge", "--yes"]).succeed();

    expect_no_trace(&home);
}

#[test]
fn what_is_not_ours_stays() {
    requires!(native);
    let home = Home::new();
    home.open();
    std::fs::write(home.path().join("config.toml"), "").expect("writes");
    let outside = tempfile::tempdir().expect("a directory");
    std::fs::write(outside.path().join("precious"), "x").expect("writes");
    // Foreign files in the home: no link is followed.
    std::fs::create_dir_all(home.path().join("volumes")).expect("makes");
    std::os::unix::fs::symlink(outside.path(), home.path().join("volumes/link")).expect("links");

    let told = home.call(["purge", "--yes", "--json"]).succeed().json();

    assert_eq!(told["left"], serde_json::json!(["config.toml"]));
    assert!(outside.path().join("precious").exists());
    let left = std::fs::read_dir(home.path()).expect("it is there").count();
    assert_eq!(left, 1);
}

#[test]
fn purge_needs_yes_and_a_home_of_coracle() {
    requires!(native);
    let home = Home::new();
    let sandbox = home.open();
    let strange = tempfile::tempdir().expect("a directory");
    std::fs::write(strange.path().join("coracle.db"), "not a database").expect("writes");
    let path = strange.path().to_str().expect("text");

    let unsure = home.call(["purge", "--json"]).run();
    let refused = home.call(["purge", "--yes", "--json", "--home", path]).run();

    assert_eq!(unsure.error_kind(), "invalid");
    assert_eq!(refused.error_kind(), "invalid");
    home.exec(&sandbox, ["true"]).succeed();
    assert!(strange.path().join("coracle.db").exists());
}

/// A program that has the home open while it is purged makes nothing any more, because no later call would find it.
#[test]
fn a_program_with_the_home_open_makes_nothing_after_a_purge() {
    requires!(native);
    let home = Home::new();
    let client = Client::start(&home, &[]);
    let sandbox = client.open();
    assert!(home.instance().is_some());

    home.call(["purge", "--yes"]).succeed();
    let opened = client.call("sandbox_open", json!({"session_key": "user:late"}));
    let entered = client.call("sandbox_exec", json!({"sandbox_id": sandbox, "cmd": ["true"]}));

    for refused in [opened, entered] {
        assert_eq!(refused["structuredContent"]["error"]["kind"], "not_available", "{refused}");
    }
    client.finish().expect_code(0);
    expect_no_trace(&home);
}
