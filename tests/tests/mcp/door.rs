//! `/mcp` of a daemon: one message at a time, as this or that revision sends it.

use std::io::Write;

use coracle_tests::Home;
use coracle_tests::daemon::Daemon;
use coracle_tests::engines::relay::Relay;
use coracle_tests::http::{Answer, Stream};
pub use coracle_tests::mcp::{calling, current, request, request_at};
use serde_json::{Value, json};

/// Returns a URL for programs that know nothing of unix sockets. It leads to whichever daemon the home has.
pub fn url(home: &Home) -> String {
    let relay = Relay::to(&home.path().join("coracle.sock")).expect("a port can be had");
    format!("{}/mcp", relay.address().replace("tcp:", "http:"))
}

/// Sends a message and leaves the answer unread: dropping what this returns closes the connection.
pub fn send(daemon: &Daemon, headers: &[(&str, &str)], message: &Value) -> Box<dyn Stream> {
    let (mut stream, message) = (daemon.unix().connect().expect("the daemon listens"), message.to_string());
    let headers: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let head = format!(
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n{headers}\
         Accept: application/json, text/event-stream\r\nContent-Length: {}\r\n\r\n",
        message.len()
    );
    stream
        .write_all(head.as_bytes())
        .and_then(|()| stream.write_all(message.as_bytes()))
        .expect("it is read");
    stream
}

/// Returns the messages of an answer, whichever way they came.
pub fn messages(answer: &Answer) -> Vec<Value> {
    let body = String::from_utf8_lossy(&answer.body).into_owned();
    let lines = body.lines().filter_map(|line| line.strip_prefix("data:")).chain([body.as_str()]);
    lines.filter_map(|line| serde_json::from_str::<Value>(line.trim()).ok()).collect()
}

/// Returns the message that answers a request.
pub fn message(answer: &Answer) -> Value {
    let answers = |message: &Value| !message["id"].is_null() || message["error"].is_object();
    messages(answer).into_iter().find(answers).unwrap_or_default()
}

/// Returns the session an older client was given.
pub fn session(daemon: &Daemon) -> String {
    let answer = request(&[], &initialize("2025-11-25").to_string()).send(&daemon.unix());
    answer.header("mcp-session-id").expect("a session").to_owned()
}

/// Returns how a client of an older revision introduces itself.
pub fn initialize(version: &str) -> Value {
    let introduced = json!({
        "protocolVersion": version,
        "capabilities": {},
        "clientInfo": {"name": "coracle-tests", "version": "1"},
    });
    json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": introduced})
}

/// Calls a tool as clients of the current revision do, and returns its data.
#[track_caller]
pub fn call(daemon: &Daemon, tool: &str, arguments: Value) -> Value {
    let answer = request(&current(tool), &calling(tool, arguments).to_string()).send(&daemon.unix());
    let message = message(&answer);
    assert_eq!(message["result"]["isError"], false, "{answer:?}");
    message["result"]["structuredContent"].clone()
}
