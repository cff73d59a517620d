//! `Coracle-Deadline` holds on every route, and counts from the head of the request.

use std::io::Write;
use std::net::Shutdown;
use std::time::{Duration, Instant};

use coracle_tests::daemon::Daemon;
use coracle_tests::http::Request;
use coracle_tests::{Home, SOON, eventually, requires};
use serde_json::json;

use crate::bodies::{answer, begin};

/// A second or two, and what a machine as busy as they get may add. What is late would go on for minutes.
const AT_ONCE: Duration = Duration::from_secs(8);

fn within(deadline: &str, request: Request) -> Request {
    request.header("Coracle-Deadline", deadline)
}

#[test]
fn streams_end_at_their_deadline_with_an_error() {
    requires!(native);
    let home = Home::new();
    let sandbox = home.open();
    home.call(["exec", &sandbox, "--detach", "--id", "long", "--", "sleep", "905.1"]).succeed();
    let daemon = Daemon::start(&home);
    let output = Request::get(&format!("/v1/sandboxes/{sandbox}/execs/long/stream"));
    let events = Request::get("/v1/events").header("Accept", "text/event-stream");

    for stream in [output, events] {
        let began = Instant::now();
        let mut opened = within("500ms", stream).open(&daemon.unix()).expect("it opens");
        let mut last = None;
        while let Some(event) = opened.event() {
            last = Some(event);
        }
        let last = last.expect("an event");
        assert_eq!(last.name, "error", "{last:?}");
        assert!(last.data.to_string().contains("timeout"), "{last:?}");
        assert!(began.elapsed() < AT_ONCE, "{:?}", began.elapsed());
    }
    assert!(!home.census().named("sleep 905.1").is_empty(), "the command goes on");
}

#[test]
fn a_body_that_trickles_does_not_put_the_deadline_off() {
    requires!(native);
    let home = Home::new();
    let sandbox = home.open();
    let _daemon = Daemon::start(&home);
    let upload = format!("/v1/sandboxes/{sandbox}/files?path=late");

    for (method, path) in [("PUT", &*upload), ("POST", "/v1/run"), ("POST", "/mcp")] {
        let began = Instant::now();
        let mut stream = begin(&home, method, path, "Coracle-Deadline: 500ms\r\n");
        let mut trickling = stream.try_clone().expect("a socket can be shared");
        let trickle = std::thread::spawn(move || {
            while trickling.write_all(b" ").is_ok() {
                std::thread::sleep(Duration::from_millis(50));
            }
        });
        stream.flush().expect("a socket has no buffer");
        assert_eq!(answer(stream.try_clone().expect("ours")), (424, "timeout".to_owned()), "{path}");
        assert!(began.elapsed() < AT_ONCE, "{path}: {:?}", began.elapsed());
        let _ = stream.shutdown(Shutdown::Both);
        trickle.join().expect("it does not panic");
    }
    let listed = home.exec(&sandbox, ["ls", "-A"]).succeed();
    assert_eq!(listed.text(), "", "nothing was written");
}

#[test]
fn a_deadline_of_zero_does_nothing() {
    requires!(native);
    let home = Home::new();
    let sandbox = home.open();
    let daemon = Daemon::start(&home);
    let of = |verb: &str| format!("/v1/sandboxes/{sandbox}/{verb}");
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "sandbox_open"}});

    for (request, key) in [
        (Request::post("/v1/sandboxes", &json!({})), "a"),
        (Request::post(&of("pause"), &json!({})), "b"),
        (Request::new("PUT", &of("files?path=late")).body("late"), "c"),
        (Request::post("/mcp", &call), "d"),
        (Request::delete(&format!("/v1/sandboxes/{sandbox}")), "e"),
    ] {
        let request = request.header("Idempotency-Key", key);
        let refused = within("0", request.clone()).send(&daemon.unix());
        assert_eq!((refused.status, &*refused.kind()), (424, "timeout"), "{request:?}");
        assert_eq!(within("soon", request).send(&daemon.unix()).kind(), "invalid");
    }

    let live = home.live();
    assert_eq!((live.len(), live[0]["state"].as_str()), (1, Some("ready")), "{live:?}");
    assert_eq!(home.exec(&sandbox, ["ls", "-A"]).succeed().text(), "");
    // The key is free: nothing was done under it.
    Request::post("/v1/sandboxes", &json!({}))
        .header("Idempotency-Key", "a")
        .send(&daemon.unix())
        .expect(200);
}

#[test]
fn a_tool_call_ends_at_its_deadline_with_its_command() {
    requires!(native);
    let home = Home::new();
    let sandbox = home.open();
    let daemon = Daemon::start(&home);
    let arguments = json!({"sandbox_id": sandbox, "cmd": ["sleep", "905.2"]});
    let params = json!({"name": "sandbox_exec", "arguments": arguments});
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
    let request = Request::post("/mcp", &call)
        .header("Accept", "application/json, text/event-stream")
        .header("MCP-Protocol-Version", "2025-06-18");
    let runs = || !home.census().named("sleep 905.2").is_empty();
    let address = daemon.unix();
    let asked = std::thread::spawn(move || within("2s", request).send(&address));
    assert!(eventually(SOON, runs).is_some());

    let answer = asked.join().expect("it does not panic");

    assert!(String::from_utf8_lossy(&answer.body).contains("timeout"), "{answer:?}");
    assert!(eventually(SOON, || !runs()).is_some_and(|took| took < AT_ONCE));
}
