//! `/mcp`: each request for itself, under every revision.

use std::time::Duration;

use coracle_tests::{Home, eventually, requires};
use serde_json::{Value, json};

use crate::daemon::{Daemon, answer, call, current};

const DYING: Duration = Duration::from_secs(5);

fn initialize(version: &str) -> Value {
    let introduced = json!({
        "protocolVersion": version,
        "capabilities": {},
        "clientInfo": {"name": "coracle-tests", "version": "1"},
    });
    json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": introduced})
}

fn old_call(id: u64, tool: &str, arguments: Value) -> Value {
    let params = json!({"name": tool, "arguments": arguments});
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params})
}

#[test]
fn every_revision_is_served() {
    requires!(native);
    let home = Home::new();
    let daemon = Daemon::start(&home);
    let list = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/list", "params": {}});

    for version in ["2025-03-26", "2025-06-18", "2025-11-25"] {
        let introduced = daemon.post(&[], &initialize(version));
        let session = introduced.header("mcp-session-id").expect("a session").to_owned();
        let listed = daemon.post(&[("MCP-Protocol-Version", version), ("Mcp-Session-Id", &session)], &list);

        assert_eq!(introduced.message()["result"]["protocolVersion"], version);
        assert_eq!(listed.message()["result"]["tools"].as_array().map(Vec::len), Some(9), "{listed:?}");
    }
    let opened = daemon.call("sandbox_open", json!({}));
    let ran = daemon.call("sandbox_exec", json!({"sandbox_id": opened["sandbox_id"], "cmd": ["echo", "hi"]}));
    assert_eq!(ran["stdout"], "hi\n");
}

#[test]
fn the_url_says_which_tools_there_are() {
    requires!(native);
    let home = Home::new();
    let daemon = Daemon::start(&home);
    let tools = |query: &str| {
        use std::io::Write;
        let list = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/list"}).to_string();
        let mut stream = daemon.connect();
        let head = format!(
            "POST /mcp{query} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n\
             Accept: application/json, text/event-stream\r\nContent-Length: {}\r\n\r\n",
            list.len()
        );
        stream.write_all(format!("{head}{list}").as_bytes()).expect("it is read");
        answer(stream)
    };

    let names = tools("?mode=compute&with=ownership").message();
    let names: Vec<&str> = names["result"]["tools"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|tool| tool["name"].as_str())
        .collect();

    assert_eq!(names, ["sandbox_run", "sandbox_claim", "sandbox_transfer", "sandbox_release"]);
    for wrong in ["?mode=everything", "?with=git", "?with=x", "?more=1"] {
        let refused = tools(wrong);
        assert!((400..500).contains(&refused.status), "{wrong}: {refused:?}");
    }
}

#[test]
fn a_client_that_goes_away_has_its_command_stopped() {
    requires!(native);
    let home = Home::new();
    let daemon = Daemon::start(&home);
    let sandbox = daemon.call("sandbox_open", json!({}))["sandbox_id"].clone();
    let command = json!({"sandbox_id": sandbox, "cmd": ["sh", "-c", "sleep 981 & sleep 981"]});

    let stream = daemon.send(&current("sandbox_exec"), &call("sandbox_exec", command).to_string());
    let alive = eventually(DYING, || home.census().named("981").len() >= 2);
    drop(stream);

    assert!(alive.is_some(), "{}", home.census().describe());
    let dead = eventually(DYING, || home.census().named("981").is_empty());
    assert!(dead.is_some(), "{}", home.census().describe());
}

#[test]
fn an_older_client_takes_a_call_back_with_another_request() {
    requires!(native);
    let home = Home::new();
    let daemon = Daemon::start(&home);
    let session =
        || daemon.post(&[], &initialize("2025-11-25")).header("mcp-session-id").expect("one").to_owned();
    let (ours, theirs) = (session(), session());
    let sandbox = daemon.call("sandbox_open", json!({}))["sandbox_id"].clone();
    let command = |word: &str| json!({"sandbox_id": sandbox, "cmd": ["sleep", word]});
    let headers =
        |session: &'static str| [("MCP-Protocol-Version", "2025-11-25"), ("Mcp-Session-Id", session)];
    let (ours, theirs): (&'static str, &'static str) = (ours.leak(), theirs.leak());
    let _mine = daemon.send(&headers(ours), &old_call(7, "sandbox_exec", command("982")).to_string());
    let _other = daemon.send(&headers(theirs), &old_call(7, "sandbox_exec", command("983")).to_string());
    let alive = eventually(DYING, || ["982", "983"].iter().all(|word| home.census().named(word).len() == 1));
    assert!(alive.is_some(), "{}", home.census().describe());

    let cancelled =
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}});
    let accepted = daemon.post(&headers(ours), &cancelled);

    assert_eq!(accepted.status, 202);
    let dead = eventually(DYING, || home.census().named("982").is_empty());
    assert!(dead.is_some(), "{}", home.census().describe());
    assert_eq!(home.census().named("983").len(), 1, "another client's call of the same number goes on");
}

#[test]
fn a_session_nobody_was_given_is_not_found() {
    requires!(native);
    let home = Home::new();
    let daemon = Daemon::start(&home);
    let list = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/list"});

    for made_up in ["x", "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"] {
        let refused =
            daemon.post(&[("MCP-Protocol-Version", "2025-06-18"), ("Mcp-Session-Id", made_up)], &list);
        assert_eq!(refused.status, 404, "{refused:?}");
    }
}

#[test]
fn pages_of_others_and_names_that_lead_here_by_a_trick_are_refused() {
    requires!(native);
    let home = Home::new();
    let daemon = Daemon::start(&home);
    let list = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/list"});

    for headers in [
        [("Host", "evil.example"), ("X", "y")],
        [("Host", "localhost:7"), ("Origin", "http://evil.example")],
        [("Host", "localhost:7"), ("Origin", "null")],
        [("Host", "localhost:7"), ("Origin", "http://localhost:8")],
    ] {
        let refused = daemon.post(&headers, &list);
        assert!((400..500).contains(&refused.status), "{headers:?}: {refused:?}");
    }
    let own = daemon.post(&[("Host", "localhost:7"), ("Origin", "http://localhost:7")], &list);
    assert_eq!(own.status, 200, "{own:?}");
}

#[test]
fn what_is_no_message_is_refused() {
    requires!(native);
    let home = Home::new();
    let daemon = Daemon::start(&home);

    for (text, code) in [("{", -32700), (r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}"#, -32700)] {
        let refused = answer(daemon.send(&[], text));
        assert_eq!((refused.status, &refused.message()["error"]["code"]), (400, &json!(code)), "{refused:?}");
    }
    for text in ["[]", "3", r#"{"jsonrpc":"2.0"}"#] {
        let refused = answer(daemon.send(&[], text));
        assert!((400..500).contains(&refused.status), "{text}: {refused:?}");
    }
}
