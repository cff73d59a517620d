//! A sandbox for one command ends with the process that made it, at every door and however that process ends.

use std::thread::JoinHandle;

use coracle_tests::daemon::Daemon;
use coracle_tests::http::{Answer, Request};
use coracle_tests::mcp::Client;
use coracle_tests::{Home, SOON, eventually, requires};
use rustix::process::Signal;
use serde_json::json;

/// Has a daemon run a command until it is told to end.
fn run_at(daemon: &Daemon, seconds: &str, key: Option<&str>) -> JoinHandle<Option<Answer>> {
    let request = Request::post("/v1/run", &json!({"cmd": ["sleep", seconds], "no_timeout": true}));
    let request = key.map_or(request.clone(), |key| request.header("Idempotency-Key", key));
    let address = daemon.unix();
    std::thread::spawn(move || request.try_send(&address))
}

#[track_caller]
fn expect_runs(home: &Home, seconds: &str) {
    let sleep = format!("sleep {seconds}");
    assert!(eventually(SOON, || !home.census().named(&sleep).is_empty()).is_some(), "it does not begin");
}

/// Expects the command and its sandbox to end, and the record to go with the next sweep.
#[track_caller]
fn expect_ends(home: &Home, seconds: &str, what: &str) {
    let sleep = format!("sleep {seconds}");
    let ended = eventually(SOON, || home.census().named(&sleep).is_empty());
    assert!(ended.is_some(), "{what}: the command goes on");
    home.call(["gc"]).succeed();
    assert!(home.live().is_empty(), "{what}: {:?}", home.live());
}

#[test]
fn a_run_ends_with_a_killed_daemon_and_a_command_in_a_sandbox_goes_on() {
    requires!(native);
    let home = Home::new();
    let sandbox = home.open();
    let daemon = Daemon::start(&home);
    let exec = Request::post(
        &format!("/v1/sandboxes/{sandbox}/execs"),
        &json!({"cmd": ["sleep", "904.1"], "stream": true}),
    );
    exec.send(&daemon.unix()).expect(200);
    let (plain, keyed) = (run_at(&daemon, "904.2", None), run_at(&daemon, "904.3", Some("cut")));
    ["904.1", "904.2", "904.3"].iter().for_each(|seconds| expect_runs(&home, seconds));

    daemon.kill();

    let answers = [plain, keyed].map(|asked| asked.join().expect("it does not panic"));
    assert!(answers.iter().all(Option::is_none), "{answers:?}");
    for seconds in ["904.2", "904.3"] {
        let sleep = format!("sleep {seconds}");
        assert!(eventually(SOON, || home.census().named(&sleep).is_empty()).is_some(), "{sleep} goes on");
    }
    expect_runs(&home, "904.1");
    let daemon = Daemon::start(&home);
    let again = run_at(&daemon, "904.3", Some("cut")).join().expect("it does not panic").expect("an answer");
    assert_eq!(again.json()["error"]["details"]["outcome"], "unknown");
}

#[test]
fn a_daemon_that_ends_cancels_a_run_after_its_drain_and_answers_it() {
    requires!(native);
    let home = Home::new();
    let daemon = Daemon::start_with(&home, &["--drain", "1s"]);
    let (plain, keyed) = (run_at(&daemon, "904.4", None), run_at(&daemon, "904.5", Some("drained")));
    ["904.4", "904.5"].iter().for_each(|seconds| expect_runs(&home, seconds));

    daemon.end();

    for asked in [plain, keyed] {
        let answer = asked.join().expect("it does not panic").expect("it is answered");
        assert_eq!(answer.kind(), "aborted");
    }
    assert!(home.live().is_empty(), "{:?}", home.live());
    let daemon = Daemon::start(&home);
    let again = run_at(&daemon, "904.5", Some("drained")).join().expect("it does not panic");
    assert_eq!(again.expect("an answer").kind(), "aborted", "its answer is kept");
}

#[test]
fn a_run_ends_with_the_process_of_coracle_call() {
    requires!(native);
    let home = Home::new();
    let input = json!({"cmd": ["sleep", "904.6"], "no_timeout": true}).to_string();

    for signal in [Signal::INT, Signal::TERM, Signal::HUP, Signal::KILL] {
        let process = home.call(["call", "sandbox_run", &input]).start();
        expect_runs(&home, "904.6");
        process.signal(signal);
        process.finish();
        expect_ends(&home, "904.6", &format!("{signal:?}"));
    }
}

#[test]
fn a_run_ends_with_a_killed_mcp_server() {
    requires!(native);
    let home = Home::new();
    let client = Client::start(&home, &["--with", "run"]);
    let code = "import os; os.execvp('sleep', ['sleep', '904.7'])";
    client.send("tools/call", json!({"name": "sandbox_run", "arguments": {"code": code}}));
    expect_runs(&home, "904.7");

    client.process.signal(Signal::KILL);

    expect_ends(&home, "904.7", "kill -9");
}
