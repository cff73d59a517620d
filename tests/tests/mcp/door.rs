//! `/mcp` of a daemon: one message at a time, as this or that revision sends it.

use std::io::Write;

use coracle_tests::Home;
use coracle_tests::daemon::Daemon;
use coracle_tests::engines::relay::Relay;
use coracle_tests::http::{Answer, Request, Stream};
use serde_json::{Value, json};

/// Returns a URL for programs that know nothing of unix sockets. It leads to whichever daemon the home has.
pub fn url(home: &Home) -> String {
    let relay = Relay::to(&home.path().join("coracle.sock")).expect("a port can be had");
    format!("{}/mcp", relay.address().replace("tcp:", "http:"))
}

/// Returns a request with a message.
pub fn request(headers: &[(&str, &str)], message: &str) -> Request {
    request_at("/mcp", headers, message)
}

/// The same, with more in the path.
pub fn request_at(path: &str, headers: &[(&str, &str)], message: &str) -> Request {
    let request = Request::new("POST", path)
        .header("Content-Type", "application/json")
        .header("Accept", "application/json, text/event-stream")
        .body(message);
    headers.iter().fold(request, |request, (name, value)| request.header(name, value))
}

/// Sends a message and leaves the answer unread: whoever drops what this returns has gone away.
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

/// Returns the headers of a call in the current revision.
pub fn current(tool: &str) -> [(&'static str, &str); 3] {
    [("MCP-Protocol-Version", "2026-07-28"), ("Mcp-Method", "tools/call"), ("Mcp-Name", tool)]
}

/// Returns the message of a call in the current revision.
pub fn calling(tool: &str, arguments: Value) -> Value {
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "coracle-tests", "version": "1"},
    });
    let params = json!({"name": tool, "arguments": arguments, "_meta": meta});
    json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
}

/// Calls a tool as clients of the current revision do, and returns its data.
#[track_caller]
pub fn call(daemon: &Daemon, tool: &str, arguments: Value) -> Value {
    let answer = request(&current(tool), &calling(tool, arguments).to_string()).send(&daemon.unix());
    let message = message(&answer);
    assert_eq!(message["result"]["isError"], false, "{answer:?}");
    message["result"]["structuredContent"].clone()
}
