//! coracle killed at random moments.

use std::time::{Duration, Instant};

use coracle_tests::engines::docker;
use coracle_tests::{Call, count, eventually, requires};

use super::site::{DEADLINE, Site};

/// Measures how long an open takes. Machines differ by a factor of five, and after a fixed time a fast one has nothing left to
/// kill.
fn time_of_an_open(site: &Site<'_>) -> Duration {
    // The first one of a home also brings the guest's program to the engine.
    let first = site.open();
    let start = Instant::now();
    let second = site.open();
    let took = start.elapsed();
    site.call(&["close", &first, &second]).succeed();
    took
}

/// Returns delays spread evenly over the time a call takes.
fn delays(number: usize, whole: Duration) -> impl Iterator<Item = Duration> {
    (0..number).map(move |n| whole * u32::try_from(n).unwrap_or(u32::MAX) / number as u32)
}

/// Starts a call, kills it after a moment, and tells whether it was killed before its end.
fn kill_after(call: Call, delay: Duration) -> bool {
    let call = call.start();
    std::thread::sleep(delay);
    call.kill().was_killed()
}

#[test]
fn opens_execs_and_closes_killed_anywhere_leave_no_orphans_on_docker() {
    requires!(docker);
    let site = Site::at(docker());
    let mut killed = 0;

    for (n, delay) in delays(count(6, 120), time_of_an_open(&site)).enumerate() {
        let key = format!("key-{}", n % 2);
        killed += usize::from(kill_after(site.open_call(&["--key", &key]), delay));
        let Some(sandbox) = site.ready().pop() else { continue };
        killed += usize::from(kill_after(site.exec(&sandbox, "sleep 0.3; echo line"), delay / 2));
        killed += usize::from(kill_after(site.call(&["close", &sandbox]), delay / 3));
    }

    assert!(killed > 3, "only {killed} calls were killed in time");
    let ready = site.ready();
    site.expect_only(&ready.iter().map(String::as_str).collect::<Vec<_>>());
    for sandbox in &ready {
        assert_eq!(site.exec(sandbox, "echo works").succeed().text(), "works\n");
    }
    site.expect_all_gone();
}

#[test]
fn a_killed_gc_is_finished_by_the_next_on_docker() {
    requires!(docker);
    let site = Site::at(docker());
    let whole = time_of_an_open(&site);
    for _ in 0..count(2, 10) {
        site.open_call(&[]).env("CORACLE_CRASH_AT", "docker.create.started").run();
    }

    for delay in delays(count(3, 20), whole) {
        kill_after(site.call(&["gc"]), delay / 4);
    }

    site.expect_only(&[]);
}

#[test]
fn without_a_gc_the_next_call_cleans_up_by_itself_on_docker() {
    requires!(docker);
    let site = Site::at(docker());
    let killed = site.open_call(&[]).env("CORACLE_CRASH_AT", "docker.create.started").run();
    assert!(killed.was_killed() && !site.left().is_empty(), "{killed}");

    // No call waits for the engine to be done; what one began, the engine or the next one finishes.
    let cleaned = eventually(DEADLINE, || {
        site.call(&["ps"]).succeed();
        site.left().is_empty()
    });

    assert!(cleaned.is_some(), "{:?}", site.left());
}
