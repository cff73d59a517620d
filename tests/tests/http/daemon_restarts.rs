//! The daemon is killed and started again: commands go on, and followers lose nothing.

use std::collections::BTreeMap;

use coracle_tests::http::Request;
use coracle_tests::{Daemon, Home, requires};
use serde_json::json;

const LINES: usize = 60;

fn start_lines(daemon: &Daemon, sandbox: &str) {
    let program =
        format!("import time\nfor n in range({LINES}):\n    print(n, flush=True)\n    time.sleep(0.05)");
    let body = json!({"cmd": ["python3", "-c", program], "stream": true, "exec_id": "count"});
    Request::post(&format!("/v1/sandboxes/{sandbox}/execs"), &body).send(&daemon.unix()).expect(200);
}

/// Follows from the last number on until `enough` or the end; tells whether that was it.
fn follow(daemon: &Daemon, sandbox: &str, seen: &mut BTreeMap<u64, String>, enough: usize) -> bool {
    let last = seen.keys().next_back().copied().unwrap_or(0);
    let path = format!("/v1/sandboxes/{sandbox}/execs/count/stream");
    let mut opened =
        Request::get(&path).header("Last-Event-ID", &last.to_string()).open(&daemon.unix()).expect("opens");
    assert_eq!(opened.status, 200);
    while seen.len() < enough {
        let Some(event) = opened.event() else { return false };
        if event.name == "end" {
            return true;
        }
        let seq = event.data["seq"].as_u64().expect("a number");
        let text = event.data["text"].as_str().expect("text").to_owned();
        assert!(seen.insert(seq, text).is_none(), "chunk {seq} came twice");
    }
    false
}

#[test]
fn a_daemon_killed_while_it_streams_is_taken_up_where_it_was() {
    requires!(native);
    let home = Home::new();
    let mut daemon = Daemon::start(&home);
    let sandbox = home.open();
    start_lines(&daemon, &sandbox);

    let mut seen = BTreeMap::new();
    for enough in [5, 15, 25] {
        assert!(!follow(&daemon, &sandbox, &mut seen, enough));
        daemon.kill();
        daemon = Daemon::start(&home);
    }
    assert!(follow(&daemon, &sandbox, &mut seen, usize::MAX), "it comes to its end");

    let text: String = seen.values().map(String::as_str).collect();
    assert_eq!(text, (0..LINES).map(|number| format!("{number}\n")).collect::<String>());
    let numbers: Vec<_> = seen.keys().copied().collect();
    assert_eq!(numbers, (1..=seen.len() as u64).collect::<Vec<_>>());
}

#[test]
fn a_daemon_told_to_end_lets_go_of_streams_and_leaves_sandboxes_alone() {
    requires!(native);
    let home = Home::new();
    let daemon = Daemon::start(&home);
    let sandbox = home.open();
    start_lines(&daemon, &sandbox);
    let path = format!("/v1/sandboxes/{sandbox}/execs/count/stream");
    let mut opened = Request::get(&path).open(&daemon.unix()).expect("opens");
    let first = opened.event().expect("a chunk");

    let ended = daemon.end().expect_code(0);
    let rest = std::iter::from_fn(|| opened.event()).last();

    assert!(ended.elapsed.as_secs() < 20, "{:?}", ended.elapsed);
    assert_eq!(first.name, "chunk");
    assert!(rest.is_none_or(|event| event.name == "chunk"), "no end was made up");
    assert_eq!(home.live().len(), 1);
    let daemon = Daemon::start(&home);
    let waited = Request::get(&format!("/v1/sandboxes/{sandbox}/execs/count/wait")).send(&daemon.unix());
    assert_eq!(waited.expect(200).json()["exit_code"], 0);
}
