//! At the deadline everything ends, whatever it does to live on.

use std::time::Duration;

use coracle_tests::{Finished, Home, SOON, eventually, requires};

/// Starts children of every kind that is hard to kill; all hold stdout, ignore TERM and carry the word in argv.
const UNKILLABLE: &str = "
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
signal.signal(signal.SIGHUP, signal.SIG_IGN)
def forever():
    while True:
        time.sleep(60)
if os.fork() == 0:
    forever()
if os.fork() == 0:
    os.setsid()
    forever()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.setpgid(0, 0)
        forever()
    os._exit(0)
if os.fork() == 0:
    while True:
        if os.fork() == 0:
            os.setsid()
            time.sleep(0.2)
            os._exit(0)
        time.sleep(0.05)
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            pass
print('started', flush=True)
forever()
";

/// The deadline: long enough that a busy machine has started everything before it.
const TIMEOUT: Duration = Duration::from_secs(4);
/// What the CLI itself and a busy machine may add to a deadline.
const SLACK: Duration = Duration::from_secs(8);

fn expect_all_dead(home: &Home, word: &str) {
    let took = eventually(SOON, || home.census().named(word).is_empty());
    assert!(took.is_some(), "descendants live on:\n{}", home.census().describe());
}

fn time_out(home: &Home, word: &str, flags: &[&str]) -> Finished {
    let sandbox = home.open();
    let arguments = ["exec", &sandbox, "--timeout", "4s"].into_iter().chain(flags.iter().copied());
    let call = home.call(arguments.chain(["--", "python3", "-c", UNKILLABLE, word])).start();
    call.wait_for(|output| output == b"started\n");
    let alive = eventually(TIMEOUT, || home.census().named(word).len() >= 5);
    assert!(alive.is_some(), "without its children this proves nothing:\n{}", home.census().describe());

    let finished = call.finish().expect_code(124);
    expect_all_dead(home, word);
    home.exec(&sandbox, ["true"]).succeed();
    finished
}

/// Commands that obey nothing end at the last moment, and not before.
#[track_caller]
fn expect_end(finished: &Finished, end: Duration) {
    // Timers may round.
    let earliest = end - Duration::from_millis(100);
    assert!((earliest..end + SLACK).contains(&finished.elapsed), "{:?}, not {end:?}", finished.elapsed);
}

#[test]
fn with_a_grace_everything_is_dead_at_its_end() {
    requires!(native);
    let home = Home::new();

    let finished = time_out(&home, "unkillable-with-grace", &["--grace", "500ms"]);

    expect_end(&finished, TIMEOUT + Duration::from_millis(500));
}

#[test]
fn without_a_grace_everything_is_dead_at_the_deadline() {
    requires!(native);
    let home = Home::new();

    let finished = time_out(&home, "unkillable-without-grace", &["--grace", "0"]);

    expect_end(&finished, TIMEOUT);
}

#[test]
fn the_default_grace_is_two_seconds() {
    requires!(native);
    let home = Home::new();

    let finished = time_out(&home, "unkillable-by-default", &[]);

    expect_end(&finished, TIMEOUT + Duration::from_secs(2));
}

#[test]
fn a_command_that_ends_on_term_does_not_wait_for_the_grace() {
    const GRACE: Duration = Duration::from_secs(60);
    requires!(native);
    let home = Home::new();
    let sandbox = home.open();

    let obeyed = home
        .call(["exec", &sandbox, "--timeout", "500ms", "--grace", "60s", "--", "sleep", "717171"])
        .run()
        .expect_code(124);
    let cleaned = "trap 'echo cleaned up; exit 0' TERM; echo up; sleep 818181 & wait";
    let tidy = home
        .call(["exec", &sandbox, "--timeout", "4s", "--grace", "60s", "--", "sh", "-c", cleaned])
        .run()
        .expect_code(124);

    assert!(obeyed.elapsed < GRACE, "{:?}", obeyed.elapsed);
    assert_eq!(tidy.text(), "up\ncleaned up\n");
    assert!(tidy.elapsed < GRACE, "{:?}", tidy.elapsed);
    expect_all_dead(&home, "818181");
}

#[test]
fn a_one_shot_that_times_out_leaves_nothing() {
    requires!(native);
    let home = Home::new();

    let word = "unkillable-one-shot";
    home.call(["run", "--timeout", "1s", "--grace", "0", "--", "python3", "-c", UNKILLABLE, word])
        .run()
        .expect_code(124);

    expect_all_dead(&home, word);
    home.expect_nothing_left();
}

#[test]
fn a_deadline_holds_without_a_client() {
    requires!(native);
    let home = Home::new();
    let sandbox = home.open();
    let word = "unkillable-unwatched";

    home.call([
        "exec",
        &sandbox,
        "--detach",
        "--id",
        "alone",
        "--timeout",
        "4s",
        "--grace",
        "0",
        "--",
        "python3",
        "-c",
        UNKILLABLE,
        word,
    ])
    .succeed();
    eventually(TIMEOUT, || home.census().named(word).len() >= 4).expect("it runs");
    let ended = eventually(TIMEOUT + SLACK, || home.census().named(word).is_empty());

    assert!(ended.is_some(), "the deadline needs a watcher:\n{}", home.census().describe());
    home.call(["wait", &sandbox, "alone"]).run().expect_code(124);
}
