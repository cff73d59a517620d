//! coracle killed at random moments.

use std::time::Duration;

use coracle_tests::{Home, SOON, count, eventually, requires};

/// Starts a call, kills it after a moment, and tells whether it was killed before its end.
fn kill_after(home: &Home, arguments: &[&str], delay: Duration) -> bool {
    let call = home.call(arguments).start();
    std::thread::sleep(delay);
    call.kill().was_killed()
}

/// Delays spread over the time the calls take, the dense part first.
fn delays(number: usize) -> impl Iterator<Item = Duration> {
    (0..number).map(move |n| Duration::from_micros((60_000 * n * n / (number * number)) as u64))
}

#[test]
fn one_shots_killed_anywhere_leave_no_orphans() {
    requires!(native);
    let home = Home::new();

    let killed = delays(count(25, 500))
        .filter(|delay| kill_after(&home, &["run", "--", "sleep", "0.01"], *delay))
        .count();
    home.call(["gc"]).succeed();

    assert!(killed > 5, "only {killed} calls were killed in time");
    home.expect_no_orphans();
    let ready = home.live().iter().filter(|record| record["state"] == "ready").count();
    assert_eq!(home.census().guests().len(), ready, "{}", home.census().describe());
}

#[test]
fn opens_and_closes_killed_anywhere_leave_no_orphans() {
    requires!(native);
    let home = Home::new();

    for (n, delay) in delays(count(25, 500)).enumerate() {
        let key = format!("key-{}", n % 3);
        kill_after(&home, &["open", "--key", &key], delay);
        let live = home.live();
        let sandbox = live.last().and_then(|record| record["sandbox_id"].as_str());
        sandbox.map(|sandbox| kill_after(&home, &["close", sandbox], delay));
    }
    home.call(["gc"]).succeed();

    home.expect_no_orphans();
    let live = home.live();
    assert!(live.iter().all(|record| record["state"] == "ready"), "{live:?}");
    assert_eq!(home.census().guests().len(), live.len(), "{}", home.census().describe());
}

#[test]
fn networks_killed_anywhere_leave_no_keeper_behind() {
    requires!(native);
    let home = Home::new();
    let network = ["--network", "allow=ok.test"];

    for (n, delay) in delays(count(16, 300)).enumerate() {
        let key = format!("key-{}", n % 3);
        kill_after(&home, &[&["open", "--key", &key], &network[..]].concat(), delay);
        kill_after(&home, &[&["run"], &network[..], &["--", "sleep", "0.01"]].concat(), delay);
        let live = home.live();
        let sandbox = live.last().and_then(|record| record["sandbox_id"].as_str());
        sandbox.map(|sandbox| kill_after(&home, &["close", sandbox], delay));
    }
    home.call(["gc"]).succeed();

    home.expect_no_orphans();
    let ready = home.live().iter().filter(|record| record["state"] == "ready").count();
    assert_eq!(home.census().guests().len(), ready, "{}", home.census().describe());
    let kept = eventually(SOON, || keepers(&home) <= ready);
    assert!(kept.is_some(), "a keeper has no sandbox:\n{}", home.census().describe());
}

fn keepers(home: &Home) -> usize {
    home.census().processes.iter().filter(|process| process.command.contains(" keeper ")).count()
}

#[test]
fn a_killed_gc_is_finished_by_the_next() {
    requires!(native);
    let home = Home::new();
    for delay in delays(6) {
        kill_after(&home, &["open"], delay);
    }

    for delay in delays(10) {
        kill_after(&home, &["gc"], delay);
    }
    home.call(["gc"]).succeed();

    home.expect_no_orphans();
}

#[test]
fn gc_never_takes_a_live_create_for_a_dead_one() {
    requires!(native);
    let home = Home::new();

    let opens: Vec<_> = (0..count(10, 50)).map(|_| home.call(["open", "--json"]).start()).collect();
    let sweeps: Vec<_> = (0..5).map(|_| home.call(["gc"]).start()).collect();

    for sweep in sweeps {
        sweep.finish().expect_code(0);
    }
    for open in opens {
        let opened = open.finish().expect_code(0).json();
        home.exec(opened["sandbox_id"].as_str().expect("an id"), ["true"]).succeed();
    }
}

#[test]
fn a_sandbox_whose_guest_was_killed_is_lost_and_swept_if_it_is_not_to_sleep() {
    requires!(native);
    let home = Home::new();
    let sandbox = home.open_with(&["--on-idle", "destroy"]);
    let guest = home.census().guests()[0];
    let pid = rustix::process::Pid::from_raw(guest as i32).expect("a pid");
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).expect("it is there");

    let refused = home.call(["exec", &sandbox, "--json", "--", "true"]).run();
    home.call(["gc"]).succeed();

    assert!(["not_found", "not_available", "aborted"].contains(&refused.error_kind().as_str()));
    home.expect_nothing_left();
    let state = home.call(["show", &sandbox, "--json"]).succeed().json()["state"].clone();
    assert!(["lost", "destroyed"].contains(&state.as_str().unwrap_or_default()), "{state}");
}
