//! A client cannot make the server hold more than it should.

use std::time::Duration;

use coracle_tests::{Home, SOON, count, eventually, requires};
use serde_json::json;

use crate::client::{Client, messages};

/// What the server has resident without a client that misbehaves, the engine's libraries included, is a third of it.
const MEMORY_MAX: u64 = 160 << 20;

#[test]
fn a_line_without_end_is_refused_and_not_kept() {
    requires!(native);
    let home = Home::new();
    let mut input = vec![b'x'; count(40, 100) << 20];
    input.extend(b"\n{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n");

    let finished = home.call(["mcp"]).stdin(input).within(Duration::from_secs(120)).run().expect_code(0);

    let heard = messages(&finished.stdout);
    assert_eq!(heard[0]["error"]["code"], -32600, "{heard:?}");
    assert_eq!(heard[1]["id"], 1, "{heard:?}");
    assert!(finished.peak_memory < MEMORY_MAX, "{} bytes", finished.peak_memory);
}

#[test]
fn long_output_is_carried_once_and_its_rest_can_be_read() {
    requires!(native);
    let home = Home::new();
    let client = Client::start(&home, &[]);
    let sandbox = client.open();
    let command = json!({"sandbox_id": sandbox, "cmd": ["sh", "-c", "yes coracle | head -c 3000000"]});

    let long = client.call("sandbox_exec", command);
    let told = &long["structuredContent"];
    let read = json!({
        "sandbox_id": sandbox, "exec_id": told["exec_id"], "since_seq": told["rest"]["since_seq"], "max_chunks": 1,
    });
    let more = client.call("sandbox_exec_read", read);

    let stdout = told["stdout"].as_str().expect("text");
    assert!(stdout.len() <= 1 << 20, "{} bytes", stdout.len());
    let missing = told["rest"]["bytes"].as_u64().expect("a number");
    assert_eq!(stdout.len() as u64 + missing, 3_000_000);
    let text =
        |result: &serde_json::Value| result["content"][0]["text"].as_str().unwrap_or_default().to_owned();
    assert!(text(&long).len() < 32 << 10, "{} bytes a second time", text(&long).len());
    assert!(text(&long).contains("sandbox_exec_read"), "who reads only texts learns how to read on");
    // A chunk is short enough to be in both.
    let chunk = &more["structuredContent"]["chunks"][0];
    assert!(chunk["seq"].as_u64() > told["rest"]["since_seq"].as_u64(), "{chunk}");
    assert!(text(&more).contains(chunk["text"].as_str().expect("text").lines().next().expect("a line")));
    client.finish().expect_code(0);
}

#[test]
fn calls_beyond_what_a_client_may_have_under_way_are_refused_and_the_others_go_on() {
    requires!(native);
    let home = Home::new();
    let client = Client::start(&home, &[]);
    let sandbox = client.open();
    let script = "until [ -e go ]; do sleep 0.2; done";
    let command = json!({"sandbox_id": sandbox, "cmd": ["sh", "-c", script]});
    let call = json!({"name": "sandbox_exec", "arguments": command});

    let ids: Vec<u64> = (0..66).map(|_| client.send("tools/call", call.clone())).collect();
    let refused = eventually(SOON, || {
        let heard = client.heard();
        let kind = |message: &serde_json::Value| {
            message["result"]["structuredContent"]["error"]["kind"] == "limit_exceeded"
        };
        heard.iter().filter(|message| kind(message)).count() == 2
    });
    assert!(refused.is_some(), "{:?}", client.heard());
    home.call(["fs", "write", &sandbox, "go"]).succeed();

    for id in ids {
        client.answer(id);
    }
    client.finish().expect_code(0);
}
