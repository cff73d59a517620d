//! A daemon with `/mcp`, asked over its socket or through a port that leads there.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use coracle_tests::engines::relay::Relay;
use coracle_tests::{Home, Started, eventually};
use rustix::process::Signal;
use serde_json::{Value, json};

const PATIENCE: Duration = Duration::from_secs(30);

/// A daemon of a home. It ends with this.
#[derive(Debug)]
pub struct Daemon {
    process: Option<Started>,
    socket: PathBuf,
}

/// What a request was answered with.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    head: String,
    pub body: String,
}

impl Daemon {
    pub fn start(home: &Home) -> Self {
        let process =
            home.call(["serve"]).env("CORACLE_SPARES", "0").within(Duration::from_secs(300)).start();
        let socket = home.path().join("coracle.sock");
        let up = eventually(PATIENCE, || UnixStream::connect(&socket).is_ok());
        assert!(up.is_some(), "the daemon does not listen");
        Self { process: Some(process), socket }
    }

    /// Returns a URL for programs that know nothing of unix sockets. It outlives the daemon.
    pub fn url(&self) -> String {
        let relay = Relay::to(&self.socket).expect("a port can be had");
        format!("{}/mcp", relay.address().replace("tcp:", "http:"))
    }

    /// Kills it as the kernel would.
    pub fn kill(mut self) {
        let killed = self.process.take().map(Started::kill);
        assert!(killed.is_some_and(|finished| finished.was_killed()));
    }

    pub fn connect(&self) -> UnixStream {
        let stream = UnixStream::connect(&self.socket).expect("the daemon listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a socket has a timeout");
        stream
    }

    /// Sends one message, with more headers, and leaves the answer unread.
    pub fn send(&self, headers: &[(&str, &str)], message: &str) -> UnixStream {
        let mut stream = self.connect();
        let more: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let host = if headers.iter().any(|(name, _)| *name == "Host") { "" } else { "Host: localhost\r\n" };
        let length = message.len();
        let head = format!(
            "POST /mcp HTTP/1.1\r\n{host}Connection: close\r\nContent-Type: application/json\r\n\
             Accept: application/json, text/event-stream\r\nContent-Length: {length}\r\n{more}\r\n"
        );
        stream
            .write_all(head.as_bytes())
            .and_then(|()| stream.write_all(message.as_bytes()))
            .expect("it is read");
        stream
    }

    /// Sends one message and returns the answer.
    pub fn post(&self, headers: &[(&str, &str)], message: &Value) -> Answer {
        answer(self.send(headers, &message.to_string()))
    }

    /// Calls a tool as clients of the current revision do, and returns its data.
    #[track_caller]
    pub fn call(&self, tool: &str, arguments: Value) -> Value {
        let answer = self.post(&current(tool), &call(tool, arguments));
        let message = answer.message();
        assert_eq!(message["result"]["isError"], false, "{answer:?}");
        message["result"]["structuredContent"].clone()
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        if let Some(process) = self.process.take() {
            process.signal(Signal::TERM);
            if !std::thread::panicking() {
                process.finish().expect_code(0);
            }
        }
    }
}

impl Answer {
    /// Returns the message that answers the request, whichever way it came.
    pub fn message(&self) -> Value {
        let lines =
            self.body.lines().filter_map(|line| line.strip_prefix("data:")).chain([self.body.as_str()]);
        let messages = lines.filter_map(|line| serde_json::from_str::<Value>(line.trim()).ok());
        messages
            .into_iter()
            .find(|message| !message["id"].is_null() || message["error"].is_object())
            .unwrap_or_default()
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        let lines = self.head.lines().filter_map(|line| line.split_once(':'));
        lines.into_iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim())
    }
}

/// Returns the headers of a call in the current revision.
pub fn current(tool: &str) -> Vec<(&'static str, &str)> {
    vec![("MCP-Protocol-Version", "2026-07-28"), ("Mcp-Method", "tools/call"), ("Mcp-Name", tool)]
}

/// Returns the message of a call in the current revision.
pub fn call(tool: &str, arguments: Value) -> Value {
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "coracle-tests", "version": "1"},
    });
    let params = json!({"name": tool, "arguments": arguments, "_meta": meta});
    json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
}

/// Reads an answer to its end.
pub fn answer(mut stream: UnixStream) -> Answer {
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).expect("the daemon answers");
    let text = String::from_utf8(bytes).expect("text");
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer: {text:?}"));
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
    let body = match head.to_ascii_lowercase().contains("transfer-encoding: chunked") {
        true => unchunked(body),
        false => body.to_owned(),
    };
    Answer { status, head: head.to_owned(), body }
}

fn unchunked(mut rest: &str) -> String {
    let mut whole = String::new();
    while let Some((size, after)) = rest.split_once("\r\n") {
        let size = usize::from_str_radix(size, 16).expect("the size of a chunk");
        if size == 0 {
            break;
        }
        whole.push_str(&after[..size]);
        rest = after[size..].trim_start_matches("\r\n");
    }
    whole
}
