//! Sandboxes live on between calls, and are gone without a trace after `close`.

use coracle_tests::census::instance_groups;
use coracle_tests::{Home, SOON, count, eventually, requires};
use serde_json::{Value, json};

#[test]
fn the_first_command_of_the_readme_prints_42() {
    requires!(native);
    let home = Home::new();

    let ran = home.call(["run", "--", "python3", "-c", "print(6*7)"]).succeed();

    assert_eq!(ran.text(), "42\n");
    home.expect_nothing_left();
}

#[test]
fn what_one_call_writes_the_next_one_reads_and_close_leaves_nothing() {
    requires!(native);
    let home = Home::new();
    let sandbox = home.open();

    home.exec(&sandbox, ["sh", "-c", "echo kept > note"]).succeed();
    assert_eq!(home.exec(&sandbox, ["cat", "note"]).succeed().text(), "kept\n");
    assert_eq!(home.exec(&sandbox, ["cat", "/workspace/note"]).succeed().text(), "kept\n");
    assert_eq!(home.call(["fs", "read", &sandbox, "note"]).succeed().stdout, b"kept\n");

    // Without this the emptiness below would prove nothing.
    let census = home.census();
    assert_eq!(census.guests().len(), 1, "one sandbox has one guest:\n{}", census.describe());
    assert!(!census.cgroups.is_empty(), "a sandbox has a cgroup:\n{}", census.describe());
    assert!(census.namespaces().len() >= 5, "a sandbox has namespaces: {:?}", census.namespaces());

    home.call(["close", &sandbox]).succeed();

    home.expect_nothing_left();
    home.expect_no_orphans();
    assert!(home.live().is_empty());
    let state = home.call(["show", &sandbox, "--json"]).succeed().json()["state"].clone();
    assert_eq!(state, "destroyed");
}

#[test]
fn the_last_sandbox_takes_the_cgroup_of_its_instance_with_it() {
    requires!(native);
    let home = Home::new();
    let sandboxes = [home.open(), home.open()];
    assert!(!instance_groups(home.instance()).is_empty(), "without one this proves nothing");

    for sandbox in sandboxes {
        home.call(["close", &sandbox]).succeed();
    }

    assert_eq!(instance_groups(home.instance()), Vec::<std::path::PathBuf>::new());
}

#[test]
fn closing_ends_what_still_runs() {
    requires!(native);
    let home = Home::new();
    let sandbox = home.open();
    home.call(["exec", &sandbox, "--detach", "--", "sleep", "987654"]).succeed();
    assert_eq!(home.census().named("987654").len(), 1);

    home.call(["close", &sandbox]).succeed();

    home.expect_nothing_left();
}

#[test]
fn closing_twice_is_no_harm() {
    requires!(native);
    let home = Home::new();
    let sandbox = home.open();

    home.call(["close", &sandbox]).succeed();
    let again = home.call(["close", &sandbox, "--json"]).run();

    match again.code() {
        Some(0) => {}
        _ => assert_eq!(again.error_kind(), "not_found"),
    }
}

#[test]
fn an_idle_sandbox_that_is_not_to_sleep_is_gone_after_its_ttl() {
    requires!(native);
    let home = Home::new();
    let sandbox = home.open_with(&["--ttl", "1s", "--on-idle", "destroy", "--key", "idle"]);
    assert_eq!(home.census().guests().len(), 1);

    let gone = eventually(SOON, || home.census().guests().is_empty());

    assert!(gone.is_some(), "the guest of an idle sandbox still runs");
    let other = home.open_with(&["--key", "idle"]);
    assert_ne!(other, sandbox, "its key is free at once");
    home.call(["close", &other]).succeed();
    home.call(["gc"]).succeed();
    home.expect_nothing_left();
    let record = home.call(["show", &sandbox, "--json"]).succeed().json();
    assert_eq!((&record["state"], &record["session_key"]), (&json!("expired"), &json!("idle")), "{record}");
    let (since, made) = (record["idle_since"].as_u64(), record["created_at"].as_u64());
    assert!(since >= made && since < made.map(|made| made + 10_000), "{record}");
    assert!(record["reason"].as_str().is_some_and(|reason| reason.starts_with("idle since 2")), "{record}");
    assert!(home.live().iter().any(|one| one["sandbox_id"] == *sandbox), "it is listed for an hour");
    let refused = home.call(["exec", &sandbox, "--json", "--", "true"]).run().error();
    assert_eq!((&refused["kind"], &refused["details"]["state"]), (&json!("not_found"), &json!("expired")));
    let events = home.call(["events", "--json"]).succeed();
    let told: Vec<Value> = events.text().lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let expired = told.iter().find(|event| event["kind"] == "expired").expect("it is told");
    assert_eq!(
        (&expired["sandbox_id"], &expired["details"]["idle_since"]),
        (&json!(sandbox), &record["idle_since"])
    );
}

#[test]
fn the_name_of_a_sandbox_that_expired_leads_to_it_until_it_is_used_again() {
    requires!(native);
    let home = Home::new();
    let sandbox = home.open_with(&["--ttl", "1s", "--on-idle", "destroy", "--name", "work"]);
    eventually(SOON, || home.census().guests().is_empty()).expect("it ends");

    let refused = home.call(["exec", "work", "--json", "true"]).run().error();
    let opened = home.call(["open", "--name", "work"]).succeed();

    assert_eq!(refused["details"]["state"], "expired", "{refused}");
    let message = refused["message"].as_str().expect("a message");
    assert!(
        message.starts_with(&format!("sandbox `{sandbox}` expired: it was idle for 1s (since 2")),
        "{message}"
    );
    assert!(message.ends_with("); its files are gone"), "{message}");
    let hint = refused["hint"].as_str().expect("a hint");
    assert!(["--ttl", "--workspace", "--volume"].iter().all(|flag| hint.contains(flag)), "{hint}");
    assert!(opened.stderr.contains(&format!("`{sandbox}` had this name and expired")), "{opened}");
    home.call(["exec", "work", "true"]).succeed();
    assert!(!home.call(["open", "--name", "work"]).succeed().stderr.contains("expired"));
}

#[test]
fn a_guest_that_was_killed_is_lost_and_not_expired() {
    requires!(native);
    let home = Home::new();
    let sandbox = home.open_with(&["--on-idle", "destroy"]);

    home.census().processes.iter().filter(|process| process.is_guest()).for_each(|guest| guest.kill());
    eventually(SOON, || home.census().guests().is_empty()).expect("it is dead");

    assert_eq!(home.call(["show", &sandbox, "--json"]).succeed().json()["state"], "lost");
}

#[test]
fn one_shots_side_by_side_leave_nothing() {
    requires!(native);
    let home = Home::new();

    let runs: Vec<_> =
        (0..count(8, 100)).map(|n| (n, home.call(["run", "--", "echo", &n.to_string()]).start())).collect();

    for (n, run) in runs {
        assert_eq!(run.finish().expect_code(0).text(), format!("{n}\n"));
    }
    home.expect_nothing_left();
    home.expect_no_orphans();
}

#[test]
fn two_homes_leave_each_other_alone() {
    requires!(native);
    let (ours, theirs) = (Home::new(), Home::new());
    let sandbox = theirs.open();

    ours.call(["gc"]).succeed();
    assert!(ours.live().is_empty());
    assert_eq!(ours.call(["exec", &sandbox, "--json", "--", "true"]).run().error_kind(), "not_found");

    theirs.exec(&sandbox, ["true"]).succeed();
}
