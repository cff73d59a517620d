//! `/mcp`: each request for itself, under every revision.

use std::io::Write;
use std::time::Duration;

use coracle_tests::daemon::Daemon;
use coracle_tests::{Home, SOON, count, eventually, requires};
use serde_json::{Value, json};

use crate::door::{
    call, calling, current, initialize, message, messages, request, request_at, send, session,
};

const DYING: Duration = SOON;

fn list() -> String {
    json!({"jsonrpc": "2.0", "id": 2, "method": "tools/list"}).to_string()
}

fn of_session(session: &str) -> [(&'static str, &str); 2] {
    [("MCP-Protocol-Version", "2025-11-25"), ("Mcp-Session-Id", session)]
}

#[test]
fn every_revision_is_served() {
    requires!(native);
    let home = Home::new();
    let daemon = Daemon::start(&home);

    for version in ["2025-03-26", "2025-06-18", "2025-11-25"] {
        let introduced = request(&[], &initialize(version).to_string()).send(&daemon.unix());
        let session = introduced.header("mcp-session-id").expect("a session");
        let headers = [("MCP-Protocol-Version", version), ("Mcp-Session-Id", session)];
        let listed = request(&headers, &list()).send(&daemon.unix());

        assert_eq!(message(&introduced)["result"]["protocolVersion"], version);
        assert_eq!(message(&listed)["result"]["tools"].as_array().map(Vec::len), Some(9), "{listed:?}");
    }
    let opened = call(&daemon, "sandbox_open", json!({}));
    let command = json!({"sandbox_id": opened["sandbox_id"], "cmd": ["echo", "hi"]});
    assert_eq!(call(&daemon, "sandbox_exec", command)["stdout"], "hi\n");
}

#[test]
fn the_url_says_which_tools_there_are() {
    requires!(native);
    let home = Home::new();
    let daemon = Daemon::start(&home);

    let query = "/mcp?mode=compute&with=ownership";
    let listed = message(&request_at(query, &[], &list()).send(&daemon.unix()));
    let tools = listed["result"]["tools"].as_array().expect("a list");

    let names: Vec<&str> = tools.iter().filter_map(|tool| tool["name"].as_str()).collect();
    assert_eq!(names, ["sandbox_run", "sandbox_claim", "sandbox_transfer", "sandbox_release"]);
    for wrong in ["mode=everything", "with=x", "more=1", "mode=code&mode=none"] {
        let refused = request_at(&format!("/mcp?{wrong}"), &[], &list()).send(&daemon.unix());
        assert_eq!((refused.status, refused.kind().as_str()), (400, "invalid"), "{wrong}: {refused}");
    }
}

#[test]
fn a_client_that_goes_away_has_its_command_stopped() {
    requires!(native);
    let home = Home::new();
    let daemon = Daemon::start(&home);
    let sandbox = call(&daemon, "sandbox_open", json!({}))["sandbox_id"].clone();
    let command = json!({"sandbox_id": sandbox, "cmd": ["sh", "-c", "sleep 981 & sleep 981"]});

    let stream = send(&daemon, &current("sandbox_exec"), &calling("sandbox_exec", command));
    let alive = eventually(DYING, || home.census().named("981").len() >= 2);
    drop(stream);

    assert!(alive.is_some(), "{}", home.census().describe());
    let dead = eventually(DYING, || home.census().named("981").is_empty());
    assert!(dead.is_some(), "{}", home.census().describe());
}

/// The daemon does not read what it sent behind its request until that is answered.
#[test]
fn a_client_that_sent_a_byte_more_and_left_has_its_command_stopped() {
    requires!(native);
    let home = Home::new();
    let daemon = Daemon::start(&home);
    let sandbox = call(&daemon, "sandbox_open", json!({}))["sandbox_id"].clone();
    let command = json!({"sandbox_id": sandbox, "cmd": ["sleep", "8123.75"]});

    let mut stream = send(&daemon, &current("sandbox_exec"), &calling("sandbox_exec", command));
    stream.write_all(b"\r\n").expect("it is connected");
    let alive = eventually(DYING, || home.census().named("8123.75").len() == 1);
    drop(stream);

    assert!(alive.is_some(), "{}", home.census().describe());
    let dead = eventually(DYING, || home.census().named("8123.75").is_empty());
    assert!(dead.is_some(), "{}", home.census().describe());
}

/// Returns a command that takes long, with a word of it, and its call with a token for progress.
fn lasting(sandbox: &Value, word: &str) -> Value {
    let script = format!("echo begun; exec sleep {word}");
    let mut calling = calling("sandbox_exec", json!({"sandbox_id": sandbox, "cmd": ["sh", "-c", script]}));
    calling["params"]["_meta"]["progressToken"] = json!("beat");
    calling
}

#[test]
fn progress_that_was_asked_for_comes_before_the_answer() {
    requires!(native);
    let home = Home::new();
    let daemon = Daemon::start(&home);
    let sandbox = call(&daemon, "sandbox_open", json!({}))["sandbox_id"].clone();
    let mut old = lasting(&sandbox, "2.5");
    old["params"]["_meta"] = json!({"progressToken": "beat"});
    let session = session(&daemon);

    let now = request(&current("sandbox_exec"), &lasting(&sandbox, "2.5").to_string()).send(&daemon.unix());
    let before = request(&of_session(&session), &old.to_string()).send(&daemon.unix());

    for answer in [now, before] {
        let told = messages(&answer);
        let (last, beats) = told.split_last().expect("messages");
        assert_eq!(answer.header("content-type"), Some("text/event-stream"), "{answer}");
        assert_eq!(last["result"]["structuredContent"]["stdout"], "begun\n", "{answer}");
        assert!(!beats.is_empty(), "{answer}");
        for beat in beats {
            assert_eq!(beat["method"], "notifications/progress", "{answer}");
            assert_eq!(beat["params"]["progressToken"], "beat", "{answer}");
            let said = beat["params"]["message"].as_str().unwrap_or_default();
            assert!(said.ends_with("6 bytes of output"), "{answer}");
        }
        assert!(beats.iter().map(|beat| beat["params"]["progress"].as_f64()).is_sorted(), "{answer}");
    }
}

#[test]
fn a_call_whose_client_leaves_at_once_is_noted() {
    requires!(native);
    let home = Home::new();
    let daemon = Daemon::start(&home);
    let sandbox = call(&daemon, "sandbox_open", json!({}))["sandbox_id"].clone();
    let lines = || -> Vec<Value> {
        let text = std::fs::read_to_string(home.path().join("audit.jsonl")).expect("a log");
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    };
    let rounds = count(10, 100);
    let calls = |round: usize| {
        [
            ("sandbox_exec", json!({"sandbox_id": sandbox, "cmd": ["sleep", "0.3"]})),
            ("sandbox_fs_write", json!({"sandbox_id": sandbox, "path": format!("{round}"), "contents": "x"})),
        ]
    };

    for (tool, arguments) in (0..rounds).flat_map(calls) {
        let stream = send(&daemon, &current(tool), &calling(tool, arguments));
        std::thread::sleep(Duration::from_millis(2));
        drop(stream);
    }

    let id = sandbox.as_str().expect("an id");
    let begun = || {
        let shown = home.call(["show", id, "--json"]).succeed().json();
        shown["execs"].as_array().map_or(0, Vec::len)
    };
    let written = || home.call(["fs", "list", id, "."]).succeed().text().lines().count();
    let noted = |tool: &str| lines().iter().filter(|line| line["operation"] == tool).count();
    let is_left = |line: &Value| line["outcome"] == "aborted" || line["outcome"] == "abandoned";
    let all = eventually(DYING, || {
        let (begun, written) = (begun(), written());
        let noted = noted("sandbox_exec") >= begun && noted("sandbox_fs_write") >= written;
        begun > 0 && written > 0 && noted && lines().iter().any(is_left)
    });
    assert!(all.is_some(), "{} begun, {} written, noted: {:?}", begun(), written(), lines());
}

#[test]
fn a_client_that_goes_away_after_a_progress_message_has_its_command_stopped() {
    requires!(native);
    let home = Home::new();
    let daemon = Daemon::start(&home);
    let sandbox = call(&daemon, "sandbox_open", json!({}))["sandbox_id"].clone();

    let request = request(&current("sandbox_exec"), &lasting(&sandbox, "984").to_string());
    // The head comes with the first message of the stream.
    let stream = request.open(&daemon.unix()).expect("the daemon answers");
    let alive = home.census().named("984").len();
    drop(stream);

    assert_eq!(alive, 1, "{}", home.census().describe());
    let dead = eventually(DYING, || home.census().named("984").is_empty());
    assert!(dead.is_some(), "{}", home.census().describe());
}

#[test]
fn an_older_client_takes_a_call_back_with_another_request() {
    requires!(native);
    let home = Home::new();
    let daemon = Daemon::start(&home);
    let (ours, theirs) = (session(&daemon), session(&daemon));
    let sandbox = call(&daemon, "sandbox_open", json!({}))["sandbox_id"].clone();
    let start = |session: &str, word: &str| {
        let arguments = json!({"sandbox_id": sandbox, "cmd": ["sleep", word]});
        let params = json!({"name": "sandbox_exec", "arguments": arguments});
        let started = json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params});
        send(&daemon, &of_session(session), &started)
    };
    let _streams = [start(&ours, "982"), start(&theirs, "983")];
    let alive = eventually(DYING, || ["982", "983"].iter().all(|word| home.census().named(word).len() == 1));
    assert!(alive.is_some(), "{}", home.census().describe());

    let cancelled =
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}});
    let accepted = request(&of_session(&ours), &cancelled.to_string()).send(&daemon.unix());

    assert_eq!(accepted.status, 202);
    let dead = eventually(DYING, || home.census().named("982").is_empty());
    assert!(dead.is_some(), "{}", home.census().describe());
    assert_eq!(home.census().named("983").len(), 1, "another client's call of the same number goes on");
}

#[test]
fn an_unknown_session_is_not_found_and_a_known_one_outlives_the_daemon() {
    requires!(native);
    let home = Home::new();
    let daemon = Daemon::start(&home);
    let given = session(&daemon);
    daemon.kill();
    let daemon = Daemon::start(&home);
    let shown = |session: &str| request(&of_session(session), &list()).send(&daemon.unix()).status;

    assert_eq!(shown(&given), 200);
    assert_eq!(shown("x"), 404);
    assert_eq!(shown(&"0".repeat(64)), 404);
}

#[test]
fn pages_of_others_and_names_that_lead_here_by_a_trick_are_refused() {
    requires!(native);
    let home = Home::new();
    let daemon = Daemon::start(&home);
    let status = |headers: &[(&str, &str)]| request(headers, &list()).send(&daemon.unix()).status;

    for headers in [
        [("Host", "evil.example"), ("X", "y")],
        [("Host", "localhost:7"), ("Origin", "http://evil.example")],
        [("Host", "localhost:7"), ("Origin", "null")],
        [("Host", "localhost:7"), ("Origin", "http://localhost:8")],
    ] {
        assert!((400..500).contains(&status(&headers)), "{headers:?}");
    }
    assert_eq!(status(&[("Host", "localhost:7"), ("Origin", "http://localhost:7")]), 200);
}

#[test]
fn what_is_no_message_is_refused() {
    requires!(native);
    let home = Home::new();
    let daemon = Daemon::start(&home);
    let answer = |text: &str| request(&[], text).send(&daemon.unix());

    for text in ["{", r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}"#] {
        let refused = answer(text);
        let code: &Value = &message(&refused)["error"]["code"];
        assert_eq!((refused.status, code), (400, &json!(-32700)), "{refused:?}");
    }
    for text in ["[]", "3", r#"{"jsonrpc":"2.0"}"#] {
        let refused = answer(text);
        assert!((400..500).contains(&refused.status), "{text}: {refused:?}");
    }
}
