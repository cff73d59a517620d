//! A call that is cancelled, by a message or because the client leaves, leaves nothing running.

use std::time::Duration;

use coracle_tests::{Home, SOON, eventually, requires};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::client::Client;

/// A tree that does not end when it is asked to: a child in a session of its own, both deaf to TERM.
const DEAF: &str = "trap '' TERM; setsid sh -c \"trap '' TERM; while :; do sleep 1; done; : $1\" & \
                    while :; do sleep 1; done";
/// Between the cancellation and the end: the grace we give, and a busy machine.
const DYING: Duration = SOON;

fn start_deaf(home: &Home, client: &Client, word: &str) -> u64 {
    let sandbox = client.open();
    let command = json!({"sandbox_id": sandbox, "cmd": ["sh", "-c", DEAF, "sh", word]});
    let id = client.send("tools/call", json!({"name": "sandbox_exec", "arguments": command}));
    expect_alive(home, word);
    id
}

#[track_caller]
fn expect_alive(home: &Home, word: &str) {
    let alive = eventually(DYING, || home.census().named(word).len() >= 2);
    assert!(alive.is_some(), "without its children this proves nothing:\n{}", home.census().describe());
}

#[track_caller]
fn expect_dead(home: &Home, word: &str) {
    let dead = eventually(DYING, || home.census().named(word).is_empty());
    assert!(dead.is_some(), "descendants live on:\n{}", home.census().describe());
}

#[test]
fn a_cancelled_exec_is_stopped_with_all_it_started() {
    requires!(native);
    let home = Home::new();
    let client = Client::start(&home, &[]);
    let id = start_deaf(&home, &client, "cancelled-tree");

    client.notify("notifications/cancelled", json!({"requestId": id, "reason": "changed my mind"}));

    expect_dead(&home, "cancelled-tree");
    assert!(client.heard().iter().all(|message| message["id"] != id), "a cancelled call gets no answer");
    assert_eq!(home.live().len(), 1, "the sandbox stays");
}

#[test]
fn a_cancelled_run_takes_its_sandbox_with_it() {
    requires!(native);
    let home = Home::new();
    let client = Client::start(&home, &["--mode", "compute"]);
    let command = json!({"runtime": "bash", "code": DEAF, "args": ["cancelled-run"]});
    let id = client.send("tools/call", json!({"name": "sandbox_run", "arguments": command}));
    expect_alive(&home, "cancelled-run");

    client.notify("notifications/cancelled", json!({"requestId": id}));

    expect_dead(&home, "cancelled-run");
    let gone = eventually(DYING, || home.live().is_empty());
    assert!(gone.is_some(), "{:?}", home.live());
}

#[test]
fn a_cancelled_wait_leaves_the_command_alone() {
    requires!(native);
    let home = Home::new();
    let client = Client::start(&home, &[]);
    let sandbox = client.open();
    let started =
        client.data("sandbox_exec", json!({"sandbox_id": sandbox, "cmd": ["sleep", "987"], "stream": true}));
    let wait = json!({"sandbox_id": sandbox, "exec_id": started["exec_id"]});
    let id = client.send("tools/call", json!({"name": "sandbox_exec_wait", "arguments": wait}));

    client.notify("notifications/cancelled", json!({"requestId": id}));

    let read = json!({"sandbox_id": sandbox, "exec_id": started["exec_id"]});
    assert_eq!(client.data("sandbox_exec_read", read)["status"], "running");
}

#[test]
fn what_is_under_way_ends_with_the_client() {
    requires!(native);
    for end in [None, Some(Signal::TERM), Some(Signal::INT)] {
        let home = Home::new();
        let client = Client::start(&home, &[]);
        start_deaf(&home, &client, "orphaned-tree");

        match end {
            None => client.hang_up(),
            Some(signal) => client.process.signal(signal),
        }
        let finished = client.finish().expect_code(0);

        expect_dead(&home, "orphaned-tree");
        assert!(finished.elapsed < Duration::from_secs(30), "{finished}");
    }
}

/// What is told meanwhile is no reason to wait for longer.
#[test]
fn progress_messages_do_not_delay_the_end() {
    requires!(native);
    let home = Home::new();
    let client = Client::start(&home, &[]);
    let sandbox = client.open();
    for number in 0..3 {
        let command = json!({"sandbox_id": sandbox, "cmd": ["sleep", format!("98{number}.5")]});
        let meta = json!({"progressToken": number});
        client.send("tools/call", json!({"name": "sandbox_exec", "arguments": command, "_meta": meta}));
    }
    let run =
        |home: &Home| (0..3).map(|number| home.census().named(&format!("98{number}.5")).len()).sum::<usize>();
    eventually(SOON, || run(&home) == 3 && signs(&client).len() >= 3).expect("they run");

    client.hang_up();
    let ended = eventually(SOON, || run(&home) == 0);

    assert!(ended.is_some(), "they go on:\n{}", home.census().describe());
    client.finish().expect_code(0);
}

#[test]
fn a_command_that_is_cancelled_while_it_is_paused_is_killed() {
    requires!(native);
    let home = Home::new();
    let client = Client::start(&home, &[]);
    let sandbox = client.open();
    let command = json!({"sandbox_id": sandbox, "cmd": ["sleep", "984.5"]});
    let id = client.send("tools/call", json!({"name": "sandbox_exec", "arguments": command}));
    eventually(SOON, || !home.census().named("984.5").is_empty()).expect("it runs");
    home.call(["pause", &sandbox]).succeed();

    client.notify("notifications/cancelled", json!({"requestId": id}));
    let ended = eventually(SOON, || home.census().named("984.5").is_empty());

    assert!(ended.is_some(), "it is still there:\n{}", home.census().describe());
    home.call(["resume", &sandbox]).succeed();
    home.exec(&sandbox, ["true"]).succeed();
}

#[test]
fn a_command_in_the_background_outlives_the_client() {
    requires!(native);
    let home = Home::new();
    let client = Client::start(&home, &[]);
    let sandbox = client.open();
    let command = json!({"sandbox_id": sandbox, "cmd": ["sleep", "986"], "stream": true});
    client.data("sandbox_exec", command);

    client.finish().expect_code(0);

    assert_eq!(home.census().named("986").len(), 1);
}

#[test]
fn a_long_call_sends_progress_messages() {
    requires!(native);
    let home = Home::new();
    let client = Client::start(&home, &[]);
    let sandbox = client.open();
    let script = "printf 12345678; until [ -e go ]; do sleep 0.1; done";
    let command = json!({"sandbox_id": sandbox, "cmd": ["sh", "-c", script]});

    let id = client.send(
        "tools/call",
        json!({"name": "sandbox_exec", "arguments": command, "_meta": {"progressToken": "p-1"}}),
    );
    let told = eventually(SOON, || signs(&client).len() >= 2);
    client.data("sandbox_fs_write", json!({"sandbox_id": sandbox, "path": "go", "contents": ""}));
    client.answer(id);

    assert!(told.is_some(), "{:?}", client.heard());
    let signs = signs(&client);
    let progress: Vec<f64> = signs.iter().filter_map(|sign| sign["progress"].as_f64()).collect();
    assert!(progress.is_sorted() && progress[0] >= 0.9, "{signs:?}");
    assert!(signs.iter().all(|sign| sign["progressToken"] == "p-1"), "{signs:?}");
    assert!(signs[1]["message"].as_str().is_some_and(|text| text.contains("8 bytes")), "{signs:?}");
}

fn signs(client: &Client) -> Vec<Value> {
    let heard = client.heard().into_iter();
    heard
        .filter(|message| message["method"] == "notifications/progress")
        .map(|message| message["params"].clone())
        .collect()
}
