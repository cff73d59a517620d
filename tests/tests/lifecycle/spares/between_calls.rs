//! The process that keeps spares between calls of the command line: only where it is asked for, and gone when it ends,
//! however it ends.

use coracle_tests::census::Process;
use coracle_tests::{Call, Home, count, eventually, requires};

use super::PATIENCE;

fn run(home: &Home, words: &[&str]) -> Call {
    home.call(["run", "--"].iter().chain(words)).env("CORACLE_SPARES", "1")
}

/// Returns the processes that keep spares.
fn keepers(home: &Home) -> Vec<Process> {
    let mut processes = home.census().processes;
    processes.retain(|process| process.command.contains(" spares --like "));
    processes
}

#[track_caller]
fn await_spare(home: &Home) {
    eventually(PATIENCE, || !home.census().guests().is_empty()).expect("a spare is made");
}

#[test]
fn without_the_setting_a_call_leaves_nothing() {
    requires!(native);
    let home = Home::new();

    home.call(["run", "--", "true"]).succeed();

    home.expect_nothing_left();
}

#[test]
fn the_next_call_takes_a_spare_and_looks_like_any_other() {
    requires!(native);
    let home = Home::new();
    run(&home, &["true"]).succeed();

    for number in 0..5 {
        await_spare(&home);
        let spare = home.census().guests();
        let told = home
            .call(["run", "-e", &format!("N={number}"), "--", "sh", "-c", "echo $N; pwd; ls -A"])
            .env("CORACLE_SPARES", "1")
            .succeed();
        assert_eq!(told.text(), format!("{number}\n/workspace\n"));
        eventually(PATIENCE, || !home.census().guests().iter().any(|guest| spare.contains(guest)))
            .expect("what was used is removed");
    }
    assert_eq!(home.live().len(), 0, "spares have no owner");

    home.call(["spares", "--stop"]).env("CORACLE_SPARES", "1").succeed();
    eventually(PATIENCE, || keepers(&home).is_empty()).expect("it ends");
    home.expect_nothing_left();
}

#[test]
fn killed_at_any_time_it_leaves_nothing_a_sweep_does_not_remove() {
    requires!(native);
    let home = Home::new();

    for round in 0..count(6, 100) {
        run(&home, &["true"]).succeed();
        if round % 2 == 0 {
            await_spare(&home);
        }
        keepers(&home).iter().for_each(Process::kill);
        eventually(PATIENCE, || keepers(&home).is_empty()).expect("it is dead");
        home.call(["gc"]).succeed();
        home.expect_no_orphans();
        home.expect_nothing_left();
    }
}
