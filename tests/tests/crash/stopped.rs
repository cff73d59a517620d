//! A caller that is stopped while it holds a sandbox: the sandbox goes on without it, and what it wanted fails.

use std::time::Duration;

use coracle_tests::{Home, SOON, Started, eventually, requires};
use rustix::process::Signal;

/// How long a command waits at most for a sandbox whose holder has stopped.
const WAITING: Duration = Duration::from_secs(30);

/// Makes a call that stops at a point, and waits until it has.
fn stopped_at(home: &Home, point: &str, words: &[&str]) -> Started {
    let call = home.call(words).env("CORACLE_CRASH_AT", format!("stop:{point}"));
    let caller = call.start();
    let status = format!("/proc/{}/status", caller.pid());
    let stands = || std::fs::read_to_string(&status).is_ok_and(|status| status.contains("State:\tT"));
    assert!(eventually(SOON, stands).is_some(), "{point} was not reached");
    caller
}

/// A sandbox, or one in which something runs.
fn open(home: &Home, busy: bool) -> String {
    let sandbox = home.open();
    home.exec(&sandbox, ["sh", "-c", "echo before > f"]).succeed();
    if busy {
        home.call(["exec", &sandbox, "--detach", "--id", "e", "--", "sleep", "600"]).succeed();
    }
    sandbox
}

/// Another run uses the sandbox while the caller is stopped; the caller finds out when it goes on.
fn go_on_without(home: &Home, sandbox: &str, caller: Started) {
    let used = home.exec(sandbox, ["sh", "-c", "echo after > f"]).succeed();
    assert!(used.elapsed < WAITING, "it was held for {:?}", used.elapsed);
    caller.signal(Signal::CONT);

    assert_eq!(caller.finish().error_kind(), "conflict");

    assert_eq!(home.exec(sandbox, ["cat", "f"]).succeed().text(), "after\n");
    assert_eq!(home.live().len(), 1, "nothing was made");
    let again = home.call(["fork", sandbox, "--json"]).succeed().json();
    let child = again["sandbox_ids"][0].as_str().expect("a fork has an id").to_owned();
    assert_eq!(home.exec(&child, ["cat", "f"]).succeed().text(), "after\n", "it can be forked after all");
}

#[test]
fn a_fork_of_what_is_idle_fails_if_its_caller_was_stopped() {
    requires!(native);
    for point in ["fork.hold.after", "native.fork.entered"] {
        let home = Home::new();
        let sandbox = open(&home, false);
        let caller = stopped_at(&home, point, &["fork", &sandbox, "--json"]);

        go_on_without(&home, &sandbox, caller);
    }
}

#[test]
fn a_fork_of_what_runs_fails_if_its_caller_was_stopped() {
    requires!(native);
    let home = Home::new();
    let sandbox = open(&home, true);
    let caller = stopped_at(&home, "native.fork.copied", &["fork", &sandbox, "--json"]);

    go_on_without(&home, &sandbox, caller);
}

#[test]
fn a_snapshot_fails_if_its_caller_was_stopped() {
    requires!(native);
    let home = Home::new();
    let sandbox = open(&home, false);
    let caller = stopped_at(&home, "native.snapshot.copied", &["snapshot", &sandbox, "--json"]);

    go_on_without(&home, &sandbox, caller);

    let images = home.call(["image", "list", "--json"]).succeed().json();
    assert_eq!(images.as_array().map(Vec::len), Some(0), "{images}");
    assert_eq!(std::fs::read_dir(home.path().join("snapshots")).map_or(0, Iterator::count), 0);
}

/// `close` names the process that stands in the way.
#[test]
fn a_close_does_not_wait_for_a_caller_that_was_stopped() {
    requires!(native);
    let home = Home::new();
    let sandbox = open(&home, false);
    let caller = stopped_at(&home, "fork.hold.after", &["fork", &sandbox, "--json"]);

    let refused = home.call(["close", &sandbox, "--json"]).within(SOON).run().error();
    let process = u64::from(caller.pid());
    caller.signal(Signal::CONT);
    caller.finish();

    assert_eq!((&refused["kind"], &refused["details"]["process"]), (&"conflict".into(), &process.into()));
    home.call(["close", &sandbox]).succeed();
    home.expect_no_orphans();
}
