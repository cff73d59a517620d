//! Pausing: everything stands still and no time counts, until it is resumed or closed.

use std::time::Duration;

use coracle_tests::{Home, SOON, eventually, requires};

/// Counts up in a file, fast, for ever.
const COUNT: &str = "i=0; while :; do i=$((i+1)); echo $i > count.new; mv count.new count; done";

fn count(home: &Home, sandbox: &str) -> String {
    home.call(["fs", "read", sandbox, "count"]).run().text().to_owned()
}

fn state(home: &Home, sandbox: &str) -> String {
    let shown = home.call(["show", sandbox, "--json"]).succeed().json();
    shown["state"].as_str().expect("a record has a state").to_owned()
}

#[test]
fn commands_stand_still_while_paused_and_go_on_after() {
    requires!(native);
    let home = Home::new();
    let sandbox = home.open();
    home.call(["exec", &sandbox, "--detach", "--id", "counter", "--", "sh", "-c", COUNT]).succeed();
    eventually(SOON, || !count(&home, &sandbox).is_empty()).expect("it counts");

    home.call(["pause", &sandbox]).succeed();

    let before = count(&home, &sandbox);
    std::thread::sleep(Duration::from_millis(200));
    assert_eq!(count(&home, &sandbox), before, "nothing moves");
    assert_eq!(state(&home, &sandbox), "paused");
    let refused = home.call(["exec", &sandbox, "--json", "--", "true"]).run().error();
    assert_eq!(refused["kind"], "conflict");
    assert!(refused["hint"].as_str().is_some_and(|hint| hint.contains("coracle resume")), "{refused}");
    home.call(["logs", &sandbox, "counter"]).succeed();

    home.call(["resume", &sandbox]).succeed();

    eventually(SOON, || count(&home, &sandbox) != before).expect("it counts on");
    assert_eq!(state(&home, &sandbox), "ready");
}

#[test]
fn paused_time_counts_for_no_deadline_and_no_idle_time() {
    requires!(native);
    let home = Home::new();
    let sandbox = home.open_with(&["--ttl", "8s"]);
    home.call(["exec", &sandbox, "--detach", "--id", "e", "--timeout", "8s", "--", "sleep", "600"]).succeed();

    home.call(["pause", &sandbox]).succeed();
    std::thread::sleep(Duration::from_secs(10));
    let shown = home.call(["show", &sandbox, "--json"]).succeed().json();

    assert_eq!(shown["execs"][0]["status"], "running", "its eight seconds are not over: {shown}");
    home.call(["resume", &sandbox]).succeed();
    let waited = home.call(["wait", &sandbox, "e", "--json"]).run();
    assert_eq!(waited.code(), Some(124), "{waited}");
    assert!(waited.elapsed > Duration::from_millis(500), "it had most of its time left: {waited}");
}

#[test]
fn whatever_is_frozen_dies_with_its_sandbox() {
    requires!(native);
    let home = Home::new();
    let sandbox = home.open_with(&["--pids", "64"]);
    // A fork bomb, with one process that ignores TERM and one that is stopped.
    let bomb =
        "trap '' TERM; sleep 600 & kill -STOP $!; f() { echo > bombing; f | f & }; f; while :; do :; done";
    home.call(["exec", &sandbox, "--detach", "--id", "bomb", "--", "bash", "-c", bomb]).succeed();
    let bombing = || home.call(["fs", "stat", &sandbox, "bombing"]).run().code() == Some(0);
    eventually(SOON, bombing).expect("it runs");
    home.call(["pause", &sandbox]).succeed();

    home.call(["close", &sandbox]).succeed();

    home.expect_nothing_left();
}

#[test]
fn a_hand_over_of_what_is_paused_kills_what_it_is_told_to() {
    requires!(native);
    let home = Home::new();
    let sandbox = home.open_with(&["--run", "run_a"]);
    home.call(["exec", &sandbox, "--run", "run_a", "--detach", "--id", "e", "--", "sleep", "828282"])
        .succeed();
    home.call(["pause", &sandbox, "--run", "run_a"]).succeed();

    let refused = home.call(["transfer", &sandbox, "--to", "run_b", "--run", "run_a", "--json"]).run();
    assert_eq!(refused.error_kind(), "conflict");
    home.call(["transfer", &sandbox, "--to", "run_b", "--run", "run_a", "--running", "kill"]).succeed();

    let dead = eventually(SOON, || home.census().named("sleep 828282").is_empty());
    assert!(dead.is_some(), "frozen or not, it is dead");
    assert_eq!(home.call(["resume", &sandbox, "--run", "run_a", "--json"]).run().error_kind(), "lent_out");
    home.call(["resume", &sandbox, "--run", "run_b"]).succeed();
    home.call(["exec", &sandbox, "--run", "run_b", "--", "true"]).succeed();
}

#[test]
fn an_ordinary_user_is_told_that_nothing_can_be_frozen() {
    requires!(native);
    let home = Home::ordinary();
    let sandbox = home.open();

    let refused = home.call(["pause", &sandbox, "--json"]).run().error();

    assert_eq!(
        (&refused["kind"], &refused["message"]),
        (&"unsupported".into(), &"pausing needs root".into())
    );
    assert_eq!(state(&home, &sandbox), "ready");
    home.exec(&sandbox, ["true"]).succeed();
}
