//! An MCP client that returns every message it gets: on standard input and output, or one message at a time at `/mcp`.

use std::cell::{Cell, RefCell};
use std::io::Write;
use std::process::ChildStdin;
use std::time::Duration;

use serde_json::{Value, json};

use crate::http::Request;
use crate::{Finished, Home, Started, eventually};

const PATIENCE: Duration = Duration::from_secs(60);

/// A conversation with `coracle mcp`.
#[derive(Debug)]
pub struct Client {
    pub process: Started,
    stdin: RefCell<Option<ChildStdin>>,
    last: Cell<u64>,
}

impl Client {
    /// Starts the server and shakes hands, as clients of the last year do.
    pub fn start(home: &Home, flags: &[&str]) -> Self {
        let client = Self::silent(home, flags);
        client.initialize("2025-11-25");
        client
    }

    /// Starts the server and says nothing yet.
    pub fn silent(home: &Home, flags: &[&str]) -> Self {
        let call = home.call(["mcp"].iter().chain(flags)).within(Duration::from_secs(120));
        let (process, stdin) = call.start_talking();
        Self { process, stdin: RefCell::new(Some(stdin)), last: Cell::new(0) }
    }

    pub fn initialize(&self, version: &str) -> Value {
        let introduced = json!({
            "protocolVersion": version,
            "capabilities": {},
            "clientInfo": {"name": "coracle-tests", "version": "1"},
        });
        let answer = self.request("initialize", introduced);
        self.notify("notifications/initialized", json!({}));
        answer
    }

    /// Sends bytes as they are.
    pub fn raw(&self, bytes: &[u8]) {
        let mut stdin = self.stdin.borrow_mut();
        let stdin = stdin.as_mut().expect("stdin is open");
        stdin.write_all(bytes).and_then(|()| stdin.flush()).expect("the server reads");
    }

    pub fn notify(&self, method: &str, params: Value) {
        self.raw(format!("{}\n", json!({"jsonrpc": "2.0", "method": method, "params": params})).as_bytes());
    }

    /// Sends a request and returns the id it has.
    pub fn send(&self, method: &str, params: Value) -> u64 {
        let id = self.last.get() + 1;
        self.last.set(id);
        let request = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        self.raw(format!("{request}\n").as_bytes());
        id
    }

    /// Sends a request and returns the whole answer.
    pub fn request(&self, method: &str, params: Value) -> Value {
        let id = self.send(method, params);
        self.answer(id)
    }

    /// Waits for the answer to a request.
    #[track_caller]
    pub fn answer(&self, id: u64) -> Value {
        let mut found = None;
        eventually(PATIENCE, || {
            found = self.heard().into_iter().find(|message| message["id"] == id);
            found.is_some()
        });
        found.unwrap_or_else(|| panic!("no answer to {id}; heard {:?}", self.heard()))
    }

    /// Calls a tool and returns its result.
    #[track_caller]
    pub fn call(&self, tool: &str, arguments: Value) -> Value {
        let answer = self.request("tools/call", json!({"name": tool, "arguments": arguments}));
        assert!(answer["result"].is_object(), "no result: {answer}");
        answer["result"].clone()
    }

    /// Calls a tool that succeeds and returns its data.
    #[track_caller]
    pub fn data(&self, tool: &str, arguments: Value) -> Value {
        let result = self.call(tool, arguments);
        assert_eq!(result["isError"], false, "{result}");
        result["structuredContent"].clone()
    }

    /// Opens a sandbox and returns its id.
    pub fn open(&self) -> String {
        self.data("sandbox_open", json!({}))["sandbox_id"].as_str().expect("an id").to_owned()
    }

    /// Returns every message so far.
    ///
    /// # Panics
    /// If standard output carries anything that is no message.
    pub fn heard(&self) -> Vec<Value> {
        messages(&self.process.stdout())
    }

    pub fn hang_up(&self) {
        self.stdin.borrow_mut().take();
    }

    /// Hangs up and waits for the end of the server.
    pub fn finish(self) -> Finished {
        self.hang_up();
        self.process.finish()
    }
}

/// Returns the messages in what a server has written; what has no newline yet is on its way.
///
/// # Panics
/// If there is anything else.
pub fn messages(stdout: &[u8]) -> Vec<Value> {
    let whole = stdout.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
    let lines = stdout[..whole].split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    let message = |line: &[u8]| {
        let shown = || String::from_utf8_lossy(&line[..line.len().min(300)]).into_owned();
        // An id is echoed as it was written; JSON has no bound on numbers, our reader has.
        let readable = String::from_utf8_lossy(line).replace("\"id\":1e400", "\"id\":0");
        let message: Value =
            serde_json::from_str(&readable).unwrap_or_else(|_| panic!("a stray line: {}", shown()));
        assert_eq!(message["jsonrpc"], "2.0", "a stray line: {}", shown());
        message
    };
    lines.map(message).collect()
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
