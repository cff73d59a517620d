//! Session keys: any number of callers, one sandbox.

use std::collections::BTreeSet;
use std::os::unix::net::UnixListener;

use coracle_tests::{Home, requires};
use serde_json::json;

#[test]
fn twenty_processes_with_one_key_open_one_sandbox() {
    requires!(native);
    let home = Home::new();

    let calls: Vec<_> = (0..20).map(|_| home.call(["open", "--key", "shared", "--json"]).start()).collect();
    let opened: Vec<_> = calls.into_iter().map(|call| call.finish().expect_code(0).json()).collect();

    let ids: BTreeSet<_> = opened.iter().map(|opened| opened["sandbox_id"].to_string()).collect();
    let created = opened.iter().filter(|opened| opened["created"] == true).count();
    assert_eq!((ids.len(), created), (1, 1), "{opened:?}");
    assert_eq!(home.live().len(), 1);
    assert_eq!(home.census().guests().len(), 1);
}

#[test]
fn an_opened_sandbox_says_its_image_and_workdir() {
    requires!(native);
    let home = Home::new();

    let opened = home.call(["open", "--json"]).succeed().json();

    assert_eq!(opened["image"], "host");
    assert_eq!(opened["workdir"], "/workspace");
    assert_eq!(opened["created"], true);
}

#[test]
fn a_key_is_free_again_after_close() {
    requires!(native);
    let home = Home::new();
    let first = home.open_with(&["--key", "again"]);
    assert_eq!(home.open_with(&["--key", "again"]), first);

    home.call(["close", &first]).succeed();

    assert_ne!(home.open_with(&["--key", "again"]), first);
}

#[test]
fn the_key_of_another_run_is_not_an_open_door() {
    requires!(native);
    let home = Home::new();
    let first = home.open_with(&["--key", "mine", "--run", "run_a"]);

    let second = home.call(["open", "--key", "mine", "--run", "run_b", "--json"]).run();

    // Either keys are the run's own, or the door says whose it is.
    match second.code() {
        Some(0) => assert_ne!(second.json()["sandbox_id"], first.as_str()),
        _ => assert_eq!(second.error_kind(), "not_owner"),
    }
}

#[test]
fn without_json_open_prints_the_id_and_nothing_else() {
    requires!(native);
    let home = Home::new();

    let opened = home.call(["open"]).succeed();

    let id = opened.text().trim_end();
    assert!(id.starts_with("sbx_") && !id.contains(char::is_whitespace), "{opened}");
    home.exec(id, ["true"]).succeed();
}

#[test]
fn the_same_key_with_another_wish_is_a_conflict_that_names_it() {
    requires!(native);
    let (home, other) = (Home::new(), tempfile::tempdir().expect("a directory can be made"));
    let first = home.open_with(&[
        "--key",
        "k",
        "--env",
        "TOKEN=hunter2",
        "--network",
        "allow=a.test",
        "--pids",
        "99",
    ]);
    let workspace = other.path().to_str().expect("temporary paths are text");

    for (field, flags) in [
        ("network", ["--network", "open"]),
        ("image", ["--image", "alpine:3"]),
        ("limits.pids", ["--pids", "98"]),
        ("mounts./workspace", ["--workspace", workspace]),
        ("env.TOKEN", ["--env", "TOKEN=other"]),
        ("labels.a", ["--label", "a=b"]),
        ("ttl", ["--ttl", "77s"]),
        ("privileges", ["--privileges", "install"]),
    ] {
        let refused = home.call(["open", "--key", "k", "--json"].iter().chain(&flags)).run();

        assert!(!refused.to_string().contains("hunter2"), "{refused}");
        let error = refused.error();
        assert_eq!(
            (&error["kind"], &error["details"]["fields"]),
            (&json!("conflict"), &json!([field])),
            "{error}"
        );
    }
    assert_eq!(home.open_with(&["--key", "k", "--pids", "99", "--network", "allow=a.test"]), first);
    home.call(["network", &first, "none"]).succeed();
    assert_eq!(home.open_with(&["--key", "k", "--network", "allow=a.test"]), first, "narrowing is no wish");
}

#[test]
fn replacing_closes_the_old_sandbox_and_two_who_do_it_end_with_one() {
    requires!(native);
    let home = Home::new();
    let first = home.open_with(&["--key", "k"]);
    home.exec(&first, ["touch", "old"]).succeed();

    let words = ["open", "--key", "k", "--replace", "--pids", "77", "--json"];
    let racers: Vec<_> = (0..4).map(|_| home.call(words).start()).collect();
    let opened: Vec<_> = racers.into_iter().map(|racer| racer.finish().expect_code(0).json()).collect();

    let live = home.live();
    assert_eq!(live.len(), 1, "{opened:?}");
    assert!(opened.iter().any(|opened| opened["sandbox_id"] == live[0]["sandbox_id"]), "{opened:?}");
    let next = live[0]["sandbox_id"].as_str().expect("an id");
    assert_ne!(next, first);
    home.exec(next, ["test", "!", "-e", "old"]).succeed();
    home.call(["open", "--replace"]).run().expect_code(125);
}

#[test]
fn what_cannot_be_made_does_not_cost_the_sandbox_it_would_replace() {
    requires!(native);
    let home = Home::new();
    let first = home.open_with(&["--key", "k"]);
    home.exec(&first, ["touch", "work"]).succeed();
    let workspace = tempfile::tempdir().expect("a directory can be made");
    let _listens = UnixListener::bind(workspace.path().join("socket")).expect("a socket can be bound");
    let workspace = workspace.path().to_string_lossy();

    let refused = home.call(["open", "--key", "k", "--replace", "--workspace", &workspace, "--json"]).run();

    assert!(refused.code() == Some(125), "{refused}");
    home.exec("k", ["test", "-e", "work"]).succeed();
    assert_eq!(home.live().len(), 1);
}

#[test]
fn a_replacement_that_is_killed_leaves_nothing_and_no_key_without_a_sandbox() {
    requires!(native);
    let home = Home::new();
    let old = home.open_with(&["--key", "k"]);
    let replace = ["open", "--key", "k", "--replace", "--json"];

    // Made, and the old one is still there.
    let killed = home.call(replace).env("CORACLE_CRASH_AT", "create.ready.after").run();
    assert!(killed.was_killed(), "{killed}");
    home.call(["gc"]).succeed();
    assert_eq!(home.live().len(), 1);
    assert_eq!(home.open_with(&["--key", "k"]), old, "the key is the old one's");

    // The old one is gone, the key not given yet.
    let killed = home.call(replace).env("CORACLE_CRASH_AT", "replace.close.after").run();
    assert!(killed.was_killed(), "{killed}");
    home.call(["gc"]).succeed();
    assert!(home.live().is_empty(), "{:?}", home.live());
    assert_eq!(home.census().guests().len(), 0, "{}", home.census().describe());
    home.open_with(&["--key", "k"]);
}

#[test]
fn a_replacement_can_write_to_the_volume_of_the_one_it_replaces() {
    requires!(native);
    let home = Home::new();
    home.open_with(&["--key", "k", "--user", "1000", "--volume", "data"]);

    let new = home.open_with(&["--key", "k", "--user", "2000", "--volume", "data", "--replace"]);

    home.exec(&new, ["touch", "mine"]).succeed();
}
