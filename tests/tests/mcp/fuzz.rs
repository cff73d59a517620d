//! Thousands of malformed frames: every answer is a message, and the server goes on.

use coracle_tests::daemon::Daemon;
use coracle_tests::{Home, count, requires};
use serde_json::json;

use crate::client::messages;
use crate::door::{call, request};

/// A generator that gives the same frames every time.
struct Dice(u64);

impl Dice {
    fn roll(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.roll() % bound as u64).expect("it is below a size")
    }

    fn one_of<'a>(&mut self, choices: &[&'a str]) -> &'a str {
        choices[self.below(choices.len())]
    }
}

const METHODS: &[&str] = &[
    "initialize",
    "ping",
    "tools/list",
    "tools/call",
    "resources/list",
    "resources/read",
    "resources/templates/list",
    "prompts/list",
    "prompts/get",
    "completion/complete",
    "logging/setLevel",
    "server/discover",
    "subscriptions/listen",
    "resources/subscribe",
    "tasks/get",
    "tasks/cancel",
    "notifications/initialized",
    "notifications/cancelled",
    "notifications/progress",
    "notifications/roots/list_changed",
    "notifications/unheard-of",
    "no/such",
    "",
];
const IDS: &[&str] =
    &["1", "0", "-1", "1.5", "null", "\"x\"", "\"\"", "[]", "{}", "true", "18446744073709551616", "1e400"];
const PARAMS: &[&str] = &[
    "{}",
    "[]",
    "null",
    "3",
    "\"\"",
    "{\"name\":\"sandbox_exec\"}",
    "{\"name\":3}",
    "{\"name\":\"\",\"arguments\":[]}",
    "{\"name\":\"sandbox_exec\",\"arguments\":{\"sandbox_id\":\"../x\",\"cmd\":[]}}",
    "{\"name\":\"sandbox_fs_read\",\"arguments\":{\"sandbox_id\":\"sbx_x\",\"path\":\"\\u0000\"}}",
    "{\"name\":\"sandbox_open\",\"arguments\":{\"image\":\"\\u001b[31m\",\"network\":\"allow=:\"}}",
    "{\"uri\":\"coracle://x/%\"}",
    "{\"uri\":\"file:///etc/passwd\"}",
    "{\"requestId\":1}",
    "{\"requestId\":null}",
    "{\"protocolVersion\":\"1999-01-01\",\"capabilities\":{},\"clientInfo\":{\"name\":\"\",\"version\":\"\"}}",
    "{\"protocolVersion\":\"2025-06-18\",\"capabilities\":{},\"clientInfo\":{\"name\":\"a\",\"version\":\"1\"}}",
    "{\"_meta\":{\"progressToken\":{}}}",
    "{\"_meta\":3}",
    "{\"cursor\":3}",
    "{\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\",\
      \"io.modelcontextprotocol/clientCapabilities\":{}}}",
];

/// Makes up one frame, and now and then breaks it.
fn frame(dice: &mut Dice) -> Vec<u8> {
    let whole = match dice.below(12) {
        0 => (0..dice.below(200)).map(|_| dice.roll() as u8).collect(),
        1 => format!("{}{}", "[".repeat(dice.below(400)), "]".repeat(dice.below(400))).into_bytes(),
        2 => format!(r#"{{"jsonrpc":"2.0","id":{},"result":{}}}"#, dice.one_of(IDS), dice.one_of(PARAMS))
            .into_bytes(),
        3 => format!(r#"[{{"jsonrpc":"2.0","id":1,"method":"{}"}}]"#, dice.one_of(METHODS)).into_bytes(),
        4 => format!(r#"{{"jsonrpc":"2.0","id":1,"id":2,"method":"{}"}}"#, dice.one_of(METHODS)).into_bytes(),
        5 => format!(
            r#"{{"jsonrpc":"2.0","method":"{}","params":{}}}"#,
            dice.one_of(METHODS),
            dice.one_of(PARAMS)
        )
        .into_bytes(),
        _ => format!(
            r#"{{"jsonrpc":"{}","id":{},"method":"{}","params":{}}}"#,
            dice.one_of(&["2.0", "2.0", "2.0", "1.0", ""]),
            dice.one_of(IDS),
            dice.one_of(METHODS),
            dice.one_of(PARAMS)
        )
        .into_bytes(),
    };
    let mut frame: Vec<u8> = whole.into_iter().map(|byte| if byte == b'\n' { b' ' } else { byte }).collect();
    if dice.below(10) == 0 && !frame.is_empty() {
        let at = dice.below(frame.len());
        frame[at] = match dice.roll() as u8 {
            b'\n' => b' ',
            byte => byte,
        };
    }
    if dice.below(20) == 0 {
        frame.truncate(dice.below(frame.len() + 1));
    }
    frame
}

#[test]
fn no_frame_breaks_the_server_or_gets_anything_but_a_message() {
    requires!(native);
    let home = Home::new();
    let mut dice = Dice(0x00c0_ac1e_0bad_cafe);
    let mut input = Vec::new();
    for _ in 0..count(1_500, 10_000) {
        input.extend(frame(&mut dice));
        input.push(b'\n');
    }
    // Whatever was agreed on before, one of these is answered.
    let introduced = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "a", "version": "1"}});
    for (id, method, params) in [("last-1", "initialize", introduced), ("last-2", "tools/list", json!({}))] {
        let request = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        input.extend(format!("{request}\n").into_bytes());
    }

    let finished =
        home.call(["mcp"]).stdin(input).within(std::time::Duration::from_secs(300)).run().expect_code(0);

    let heard = messages(&finished.stdout);
    let last = |id: &str| heard.iter().any(|message| message["id"] == id);
    assert!(last("last-1") && last("last-2"), "{finished}");
    assert!(heard.iter().all(|message| message["error"].is_object()
        || message["result"].is_object()
        || message["method"].is_string()));
}

#[test]
fn no_frame_breaks_the_daemon_or_what_runs_behind_it() {
    requires!(native);
    let home = Home::new();
    let daemon = Daemon::start(&home);
    let sandbox = call(&daemon, "sandbox_open", json!({}))["sandbox_id"].clone();
    let script = "i=0; until [ -e go ]; do i=$((i + 1)); sleep 0.05; done; echo whole";
    let command = json!({"sandbox_id": sandbox, "cmd": ["sh", "-c", script], "stream": true});
    let exec = call(&daemon, "sandbox_exec", command)["exec_id"].clone();
    let mut dice = Dice(0x0bad_5eed_0f00_d1e5);

    for _ in 0..count(150, 2_000) {
        let frame = frame(&mut dice);
        let answer = request(&[], &String::from_utf8_lossy(&frame)).send(&daemon.unix());
        assert!(answer.status < 500, "{answer} to {:?}", String::from_utf8_lossy(&frame));
    }

    call(&daemon, "sandbox_fs_write", json!({"sandbox_id": sandbox, "path": "go", "contents": ""}));
    let of_exec = json!({"sandbox_id": sandbox, "exec_id": exec});
    assert_eq!(call(&daemon, "sandbox_exec_wait", of_exec.clone())["exit_code"], 0);
    assert_eq!(call(&daemon, "sandbox_exec_read", of_exec)["chunks"][0]["text"], "whole\n");
}
