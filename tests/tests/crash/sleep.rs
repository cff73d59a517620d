//! Killed while a sandbox falls asleep or wakes.

use coracle_tests::{Home, SOON, count, eventually, requires};

/// Every point of falling asleep and waking. The janitor reaches the first ones, the next use of a sandbox all of them.
fn points() -> Vec<&'static str> {
    let native = coracle_backends::SLEEP_CRASH_POINTS.iter();
    native.chain(coracle_engine::SLEEP_CRASH_POINTS).copied().collect()
}

fn survive(home: &Home, point: &str) {
    let sandbox = home.open_with(&["--network", "allow=ok.test"]);
    let cat = || home.exec(&sandbox, ["cat", "note"]).succeed().text().to_owned();
    home.exec(&sandbox, ["sh", "-c", "echo acknowledged > note"]).succeed();
    for round in 0..count(1, 20) {
        for guest in home.census().guests() {
            let pid = rustix::process::Pid::from_raw(guest as i32).expect("a pid");
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
        eventually(SOON, || home.census().guests().is_empty()).expect("a killed guest ends");

        let killed = home.exec(&sandbox, ["true"]).env("CORACLE_CRASH_AT", point).run();
        assert!(killed.was_killed(), "{point} was not reached: {killed}");
        // The janitor, or the next call by itself.
        if round % 2 == 0 {
            home.call(["gc"]).succeed();
            home.expect_no_orphans();
        }

        assert_eq!(cat(), "acknowledged\n", "{point}");
        assert_eq!(home.census().guests().len(), 1, "{point}: {}", home.census().describe());
    }
    home.call(["close", &sandbox]).succeed();
    home.expect_nothing_left();
}

#[test]
fn a_kill_at_any_point_of_a_sleep_loses_no_file() {
    requires!(native);

    for point in points() {
        survive(&Home::new(), point);
    }
}

#[test]
fn an_ordinary_user_loses_no_file_either() {
    requires!(native);

    for point in points().into_iter().step_by(count(3, 1)) {
        survive(&Home::ordinary(), point);
    }
}
