//! How long things live: what counts as use, which commands have a deadline, what `stop` ends.

use std::io::Read;
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use coracle_tests::{Home, SOON, count, eventually, requires};
use serde_json::{Value, json};

/// Short against what the tests wait for, long against a busy machine's own pauses.
const IDLE: &str = "2s";

fn kept(home: &Home, sandbox: &str, id: &str, script: &str) {
    home.call(["exec", sandbox, "--keep-background", "--id", id, "--", "sh", "-c", script]).succeed();
}

fn waited(home: &Home, sandbox: &str, id: &str) -> Value {
    home.call(["wait", sandbox, id, "--json"]).run().json()
}

/// Returns how long a sandbox that has expired was in use.
fn used(home: &Home, sandbox: &str) -> Duration {
    let record = home.call(["show", sandbox, "--json"]).succeed().json();
    let at = |name: &str| record[name].as_u64().unwrap_or_else(|| panic!("no {name}: {record}"));
    Duration::from_millis(at("idle_since").saturating_sub(at("created_at")))
}

#[test]
fn what_is_kept_in_the_background_is_use() {
    requires!(native);
    let home = Home::new();
    let sandbox = home.open_with(&["--ttl", IDLE, "--on-idle", "destroy"]);

    // Three times as long as it may be idle.
    kept(&home, &sandbox, "kept", "exec >/dev/null 2>&1; sleep 6.25 & exit 0");
    let ended = eventually(SOON, || home.census().named("sleep 6.25").is_empty());

    assert!(ended.is_some());
    let gone = eventually(SOON, || home.census().guests().is_empty());
    assert!(gone.is_some(), "without a process it is idle");
    assert!(
        used(&home, &sandbox) >= Duration::from_millis(6_250),
        "it is idle from the end of the last process on"
    );
}

#[test]
fn idle_time_counts_from_the_end_of_a_command() {
    requires!(native);
    let home = Home::new();
    let sandbox = home.open_with(&["--ttl", "3s", "--on-idle", "destroy"]);

    // Ends shortly before the time for which the sandbox may be idle has passed a second time.
    home.call(["exec", &sandbox, "--detach", "--", "sleep", "5.75"]).succeed();
    eventually(SOON, || home.census().named("sleep 5.75").len() == 1).expect("it runs");
    eventually(SOON, || home.census().named("sleep 5.75").is_empty()).expect("it ends");
    eventually(SOON, || home.census().guests().is_empty()).expect("it is idle now");

    assert!(
        used(&home, &sandbox) >= Duration::from_millis(5_750),
        "it is idle from the end of its command on"
    );
}

/// Answers each connection with a word.
const SERVER: &str = "
import socket
server = socket.create_server(('127.0.0.1', 8000))
while True:
    client = server.accept()[0]; client.sendall(b'alive'); client.close()";

fn ask(address: SocketAddr) -> String {
    let mut answer = String::new();
    let stream = TcpStream::connect(address).expect("it listens");
    stream.set_read_timeout(Some(SOON)).expect("a stream can have a timeout");
    let _ = (&stream).read_to_string(&mut answer);
    answer
}

/// In a full run with the times people have, otherwise with short ones.
#[test]
fn a_detached_server_outlives_every_idle_time_and_deadline() {
    requires!(native);
    let short = count(1, 0) == 1;
    let home = if short { Home::new().env("CORACLE_EXEC_TIMEOUT", "2s") } else { Home::new() };
    let sandbox = if short { home.open_with(&["--ttl", IDLE]) } else { home.open() };
    home.call(["exec", &sandbox, "--detach", "--", "python3", "-c", SERVER]).succeed();
    let forward = home.call(["forward", &sandbox, "8000"]).within(Duration::from_secs(3600)).start();
    forward.wait_for(|output| output.ends_with(b"\n"));
    let address = String::from_utf8_lossy(&forward.stdout()).trim().parse().expect("an address");
    eventually(SOON, || ask(address) == "alive").expect("the server comes up");

    // The test is that no call comes for so long.
    std::thread::sleep(Duration::from_secs(if short { 8 } else { 21 * 60 }));

    assert_eq!(ask(address), "alive");
    forward.kill();
}

#[test]
fn stopping_an_exec_ends_what_it_left_running() {
    requires!(native);
    let home = Home::new();
    let sandbox = home.open();
    kept(&home, &sandbox, "polite", "sleep 600.1 & setsid sleep 600.2 & echo leader");
    kept(&home, &sandbox, "stubborn", "(trap '' TERM; while :; do sleep 600.3; done) & echo leader");
    kept(&home, &sandbox, "other", "sleep 600.4 & echo leader");
    let alive = |word: &str| !home.census().named(word).is_empty();
    assert!(["600.1", "600.2", "600.3", "600.4"].iter().all(|word| alive(word)));

    let stopped = home.call(["stop", &sandbox, "polite", "--json"]).succeed().json();
    home.call(["stop", &sandbox, "stubborn", "--grace", "200ms"]).succeed();

    assert_eq!(stopped["exit_code"], 0, "its leader ended as it did: {stopped}");
    assert!(!["600.1", "600.2", "600.3"].iter().any(|word| alive(word)), "{}", home.census().describe());
    assert!(alive("600.4"), "what another exec left is no business of theirs");
    home.call(["stop", &sandbox, "other"]).succeed();
}

#[test]
fn what_is_kept_ends_at_the_longest_time_a_command_may_take() {
    requires!(native);
    let home = Home::new().env("CORACLE_EXEC_TIMEOUT", "3s").env("CORACLE_EXEC_TIMEOUT_MAX", "3s");
    let sandbox = home.open_with(&["--ttl", "30s"]);

    kept(&home, &sandbox, "kept", "exec >/dev/null 2>&1; sleep 607.1 & exit 0");
    let ended = eventually(SOON, || home.census().named("sleep 607.1").is_empty());

    assert!(ended.is_some(), "{}", home.census().describe());
    let state = waited(&home, &sandbox, "kept");
    assert_eq!((&state["exit_code"], &state["limits_hit"]), (&json!(0), &json!(["wall_time"])), "{state}");
}

#[test]
fn stopping_a_running_exec_ends_what_it_would_have_left() {
    requires!(native);
    let home = Home::new();
    let sandbox = home.open();
    let script = "(trap '' TERM; while :; do sleep 601.1; done) & sleep 601.2";
    home.call(["exec", &sandbox, "--detach", "--keep-background", "--id", "e", "--", "sh", "-c", script])
        .succeed();
    // Two shells, and what they wait for.
    eventually(SOON, || home.census().named("sleep 601").len() == 4).expect("all of it runs");

    let stopped = home.call(["stop", &sandbox, "e", "--grace", "300ms", "--json"]).succeed().json();

    assert_eq!(stopped["outcome"], json!({"kind": "stopped"}));
    assert!(home.census().named("sleep 601").is_empty(), "{}", home.census().describe());
}

#[test]
fn output_after_the_leaders_end_is_kept() {
    requires!(native);
    let home = Home::new();
    let sandbox = home.open();
    kept(&home, &sandbox, "e", "(until [ -e go ]; do sleep 0.05; done; echo late) & echo early");
    assert_eq!(home.call(["logs", &sandbox, "e"]).succeed().text(), "early\n");

    home.exec(&sandbox, ["touch", "go"]).succeed();

    let came = eventually(SOON, || home.call(["logs", &sandbox, "e"]).succeed().text() == "early\nlate\n");
    assert!(came.is_some(), "{}", home.call(["logs", &sandbox, "e"]).run());
    let end = waited(&home, &sandbox, "e");
    assert_eq!((&end["stdout_bytes"], &end["truncated"]), (&json!(11), &json!(false)), "{end}");
}

#[test]
fn output_after_the_leaders_end_is_counted_where_it_is_not_kept() {
    requires!(native);
    const FLOOD: u64 = 30_000_000;
    let home = Home::new();
    let sandbox = home.open_with(&["--output", "1m"]);
    kept(&home, &sandbox, "e", &format!("(sleep 0.2; head -c {FLOOD} /dev/zero) & echo early"));

    let all = eventually(SOON, || waited(&home, &sandbox, "e")["stdout_bytes"] == FLOOD + 6);

    let end = waited(&home, &sandbox, "e");
    assert!(all.is_some(), "{end}");
    assert_eq!(end["truncated"], true, "{end}");
    let read = home.call(["logs", &sandbox, "e"]).succeed().stdout_bytes;
    assert_eq!(read + end["truncation"]["bytes"].as_u64().expect("a number"), FLOOD + 6, "{end}");
}

/// What outlives a deadline of a second, and says so.
const LONG: &str = "sleep 3; exit 7";

#[test]
fn only_what_is_waited_for_has_the_usual_deadline() {
    requires!(native);
    let home = Home::new().env("CORACLE_EXEC_TIMEOUT", "1s");
    let sandbox = home.open();
    let run = |words: &[&str]| home.call(words.iter().copied().chain(["--", "sh", "-c", LONG])).run();

    run(&["run"]).expect_code(124);
    run(&["exec", &sandbox]).expect_code(124);
    run(&["exec", &sandbox, "--json"]).expect_code(124);
    run(&["exec", &sandbox, "--timeout", "none"]).expect_code(7);
    run(&["run", "--timeout", "none"]).expect_code(7);
    run(&["exec", &sandbox, "--tty"]).expect_code(7);
    run(&["exec", &sandbox, "--detach", "--id", "d"]).expect_code(0);
    run(&["exec", &sandbox, "--detach", "--id", "short", "--timeout", "1s"]).expect_code(0);
    home.call(["shell", &sandbox]).stdin(LONG).run().expect_code(7);
    home.call(["wait", &sandbox, "d"]).run().expect_code(7);
    home.call(["wait", &sandbox, "short"]).run().expect_code(124);
}

#[test]
fn operations_have_the_same_deadlines() {
    requires!(native);
    let home = Home::new().env("CORACLE_EXEC_TIMEOUT", "1s");
    let sandbox = home.open();
    let exec = |more: Value| {
        let mut input = json!({"sandbox_id": sandbox, "cmd": ["sh", "-c", LONG]});
        input.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        home.operation("sandbox_exec", &input).run()
    };

    assert_eq!(exec(json!({})).json()["outcome"], json!({"kind": "timed_out"}));
    assert_eq!(exec(json!({"no_timeout": true})).json()["exit_code"], 7);
    assert_eq!(exec(json!({"no_timeout": true, "timeout_ms": 5})).error_kind(), "invalid");
    exec(json!({"stream": true, "exec_id": "streamed"})).expect_code(0);
    home.call(["wait", &sandbox, "streamed"]).run().expect_code(7);
}

#[test]
fn a_maximum_caps_the_default_deadline_and_refuses_a_longer_written_one() {
    requires!(native);
    let home = Home::new().env("CORACLE_EXEC_TIMEOUT", "1s").env("CORACLE_EXEC_TIMEOUT_MAX", "1500ms");
    let sandbox = home.open();
    let exec = |flags: &[&str]| {
        let words = ["exec", &sandbox, "--json"].into_iter().chain(flags.iter().copied());
        home.call(words.chain(["--", "sh", "-c", LONG])).run()
    };

    for refused in [["--timeout", "none"], ["--timeout", "2s"]] {
        let error = exec(&refused).error();
        assert_eq!(
            (&error["kind"], &error["details"]["max_ms"]),
            (&json!("invalid"), &json!(1500)),
            "{error}"
        );
        assert!(error["message"].as_str().is_some_and(|message| message.contains("1.5s")), "{error}");
    }
    exec(&["--detach", "--id", "capped"]).expect_code(0);
    home.call(["wait", &sandbox, "capped"]).run().expect_code(124);
}
