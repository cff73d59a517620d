//! Every process that works in a home writes events, and any other process can follow them.

use coracle_tests::{Home, SOON, count, eventually, requires};
use serde_json::Value;

fn events(home: &Home, flags: &[&str]) -> Vec<Value> {
    let printed = home.call(["events", "--json"].iter().chain(flags)).succeed();
    printed.text().lines().map(|line| serde_json::from_str(line).expect("a document on each line")).collect()
}

fn kinds(events: &[Value]) -> Vec<&str> {
    events.iter().map(|event| event["kind"].as_str().expect("a name")).collect()
}

#[test]
fn a_follower_sees_what_other_processes_do() {
    requires!(native);
    let home = Home::new();
    home.open();
    let follower = home.call(["events", "--follow", "--json"]).start();
    // It begins with what comes, and may begin in the middle of a run: the next one is seen whole.
    let seen = eventually(SOON, || {
        home.call(["run", "--", "true"]).succeed();
        let printed = String::from_utf8_lossy(&follower.stdout()).into_owned();
        ["\"exec_ended\"", "\"destroyed\""].iter().all(|kind| printed.contains(kind))
    });

    let printed = String::from_utf8(follower.stdout()).expect("text");
    follower.kill();
    assert!(seen.is_some(), "{printed}");
}

#[test]
fn one_shots_and_sandboxes_have_the_same_events() {
    requires!(native);
    let home = Home::new();
    let sandbox = home.open();
    home.exec(&sandbox, ["sh", "-c", "exit 3"]).run().expect_code(3);
    home.call(["close", &sandbox]).succeed();
    home.call(["run", "--", "true"]).succeed();

    let stayed = events(&home, &["--sandbox", &sandbox]);
    let all = events(&home, &[]);

    let life = ["opened", "ready", "exec_started", "exec_ended", "destroying", "destroyed"];
    assert_eq!(kinds(&stayed), life);
    assert_eq!(kinds(&all[stayed.len()..]), life);
    let numbers: Vec<_> = all.iter().map(|event| event["seq"].as_u64().expect("a number")).collect();
    assert_eq!(numbers, (1..=numbers.len() as u64).collect::<Vec<_>>());
    assert_eq!(stayed[3]["details"]["exit_code"], 3);
}

#[test]
fn a_reader_goes_on_behind_the_last_number_it_has() {
    requires!(native);
    let home = Home::new();
    let sandbox = home.open();
    let last = events(&home, &[]).last().expect("there is one")["seq"].to_string();

    home.call(["close", &sandbox]).succeed();

    assert_eq!(kinds(&events(&home, &["--since-seq", &last])), ["destroying", "destroyed"]);
    assert_eq!(events(&home, &["--since", "1h"]).len(), 4);
    assert_eq!(kinds(&events(&home, &["--kind", "ready"])), ["ready"]);
}

#[test]
fn a_spare_has_events_once_it_is_taken() {
    requires!(native);
    let home = Home::new().env("CORACLE_SPARES", "1");
    for _ in 0..3 {
        home.call(["run", "--", "true"]).succeed();
    }

    let told = eventually(SOON, || {
        kinds(&events(&home, &[])).iter().filter(|kind| **kind == "destroyed").count() == 3
    });

    let all = events(&home, &[]);
    assert!(told.is_some(), "{all:?}");
    let opened: Vec<_> = all.iter().filter(|event| event["kind"] == "opened").collect();
    assert_eq!(opened.len(), 3, "{all:?}");
    assert!(opened.iter().all(|event| event["run"].is_string()));
    home.call(["spares", "--stop"]).run();
}

#[test]
fn after_a_kill_at_any_point_the_end_of_an_exec_is_recorded() {
    requires!(native);
    for point in ["exec.admit.after", "exec.start.after", "exec.end.after"] {
        let home = Home::new();
        let sandbox = home.open();
        let once = || home.call(["exec", &sandbox, "--json", "--keep-running", "--id", "once", "--", "true"]);
        once().env("CORACLE_CRASH_AT", point).run();

        // Asking with the same id is the same exec, wherever the first to ask died.
        once().succeed();
        home.call(["close", &sandbox]).succeed();

        let all = events(&home, &[]);
        let of_exec: Vec<_> = kinds(&all).into_iter().filter(|kind| kind.starts_with("exec_")).collect();
        assert_eq!(of_exec, ["exec_started", "exec_ended"], "{point}");
    }
}

#[test]
fn many_writers_lose_no_event_and_write_none_twice() {
    requires!(native);
    let home = Home::new();
    let sandbox = home.open();
    let each = count(4, 40);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| (0..each).for_each(|_| drop(home.exec(&sandbox, ["true"]).succeed())));
        }
    });

    let ends = events(&home, &["--kind", "exec_ended"]);
    let mut execs: Vec<_> = ends.iter().map(|event| event["exec_id"].to_string()).collect();
    execs.sort();
    execs.dedup();

    assert_eq!((ends.len(), execs.len()), (3 * each, 3 * each));
}
