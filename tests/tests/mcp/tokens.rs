//! `/mcp` with tokens: a token allows its operations, and shows nothing of other tenants.

use coracle_tests::daemon::Daemon;
use coracle_tests::http::Answer;
use coracle_tests::{Home, requires};
use serde_json::{Value, json};

use crate::door::{call, calling, current, initialize, message, request};

/// Sends a message over the network.
fn post(daemon: &Daemon, token: Option<&str>, headers: &[(&str, &str)], message: &Value) -> Answer {
    let request = request(headers, &message.to_string());
    let request = token.into_iter().fold(request, |request, token| request.token(token));
    request.send(&daemon.tcp())
}

fn result(daemon: &Daemon, token: &str, tool: &str, arguments: Value) -> Value {
    message(&post(daemon, Some(token), &current(tool), &calling(tool, arguments)))["result"].clone()
}

#[test]
fn every_request_over_the_network_needs_a_token() {
    requires!(native);
    let home = Home::new();
    let daemon = Daemon::start(&home);

    let none = post(&daemon, None, &[], &initialize("2025-06-18"));
    let wrong = post(&daemon, Some("crc_nonsense"), &[], &initialize("2025-06-18"));

    assert_eq!((none.status, wrong.status), (401, 401));
    let log = std::fs::read_to_string(home.path().join("audit.jsonl")).expect("a log");
    assert_eq!(log.lines().count(), 2, "{log}");
}

#[test]
fn a_token_shows_and_does_what_it_is_for() {
    requires!(native);
    let home = Home::new();
    let daemon = Daemon::start(&home);
    let token = home.token("acme", &["--allow", "sandbox_open,sandbox_fs_*,sandbox_close"]);
    let list = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/list"});

    let listed = message(&post(&daemon, Some(&token), &[], &list));
    let opened = result(&daemon, &token, "sandbox_open", json!({}));
    let sandbox = &opened["structuredContent"]["sandbox_id"];
    let refused = result(&daemon, &token, "sandbox_exec", json!({"sandbox_id": sandbox, "cmd": ["true"]}));
    let closed = result(&daemon, &token, "sandbox_close", json!({"sandbox_id": sandbox}));

    let names: Vec<&str> = listed["result"]["tools"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|tool| tool["name"].as_str())
        .collect();
    assert!(names.contains(&"sandbox_fs_read") && !names.contains(&"sandbox_exec"), "{names:?}");
    assert_eq!(opened["isError"], false, "{opened}");
    assert_eq!(refused["structuredContent"]["error"]["kind"], "denied", "{refused}");
    assert_eq!(closed["isError"], false, "{closed}");
}

#[test]
fn tenants_know_nothing_of_each_other() {
    requires!(native);
    let home = Home::new();
    let daemon = Daemon::start(&home);
    let (acme, evil) = (home.token("acme", &["--allow", "*"]), home.token("evil", &["--allow", "*"]));
    let opened = result(&daemon, &acme, "sandbox_open", json!({"session_key": "user:x"}));
    let sandbox = &opened["structuredContent"]["sandbox_id"];
    let command = |id: &Value| json!({"sandbox_id": id, "cmd": ["true"]});

    let foreign = result(&daemon, &evil, "sandbox_exec", command(sandbox));
    let unknown = result(&daemon, &evil, "sandbox_exec", command(&json!("sbx_01m7hsma1nv8r7k3ng2ct513te")));
    let same_key = result(&daemon, &evil, "sandbox_open", json!({"session_key": "user:x"}));

    let told = |result: &Value, id: &str| result["structuredContent"].to_string().replace(id, "ID");
    let id = sandbox.as_str().expect("an id");
    assert_eq!(told(&foreign, id), told(&unknown, "sbx_01m7hsma1nv8r7k3ng2ct513te"));
    assert_eq!(foreign["structuredContent"]["error"]["kind"], "not_found");
    assert_eq!(same_key["structuredContent"]["created"], true, "{same_key}");
}

#[test]
fn a_stolen_session_id_is_of_no_use() {
    requires!(native);
    let home = Home::new();
    let daemon = Daemon::start(&home);
    let (acme, evil) = (home.token("acme", &["--allow", "*"]), home.token("evil", &["--allow", "*"]));
    let introduced = post(&daemon, Some(&acme), &[], &initialize("2025-11-25"));
    let session = introduced.header("mcp-session-id").expect("a session").to_owned();
    let headers = [("MCP-Protocol-Version", "2025-11-25"), ("Mcp-Session-Id", session.as_str())];
    let list = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/list"});

    assert_eq!(post(&daemon, Some(&acme), &headers, &list).status, 200);
    assert_eq!(post(&daemon, Some(&evil), &headers, &list).status, 404);
}

#[test]
fn the_audit_log_has_the_caller_and_not_the_content() {
    requires!(native);
    let home = Home::new();
    let daemon = Daemon::start(&home);
    let token = home.token("acme", &["--allow", "*"]);
    let sandbox =
        result(&daemon, &token, "sandbox_open", json!({}))["structuredContent"]["sandbox_id"].clone();
    let command = json!({"sandbox_id": sandbox, "cmd": ["echo", "said-aloud"], "env": {"KEY": "hushed"}});
    result(&daemon, &token, "sandbox_exec", command);
    result(&daemon, &token, "sandbox_exec", json!({"sandbox_id": "sbx_nope", "cmd": ["true"]}));
    call(&daemon, "sandbox_open", json!({}));

    let log = std::fs::read_to_string(home.path().join("audit.jsonl")).expect("a log");
    let lines: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();

    let of_mcp: Vec<&Value> = lines.iter().filter(|line| line["door"] == "mcp").collect();
    let seen: Vec<(&str, &str)> = of_mcp
        .iter()
        .map(|line| (line["operation"].as_str().unwrap_or(""), line["outcome"].as_str().unwrap_or("")))
        .collect();
    let expected = [
        ("sandbox_open", "ok"),
        ("sandbox_exec", "ok"),
        ("sandbox_exec", "not_found"),
        ("sandbox_open", "ok"),
    ];
    assert_eq!(seen, expected, "{log}");
    assert!(of_mcp[1]["who"].as_str().is_some_and(|who| who.starts_with("token:")), "{log}");
    assert_eq!((&of_mcp[1]["tenant"], &of_mcp[1]["sandbox"]), (&json!("acme"), &sandbox), "{log}");
    assert!(of_mcp[3]["who"].as_str().is_some_and(|who| who.starts_with("uid:")), "{log}");
    assert!(!log.contains("said-aloud") && !log.contains("hushed") && !log.contains(&token), "{log}");
}
