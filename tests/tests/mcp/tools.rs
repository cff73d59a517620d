//! Tools are operations: which there are, what they are called with, what they answer.

use coracle_tests::{Home, requires};
use serde_json::{Value, json};

use crate::client::Client;

const CODE: [&str; 9] = [
    "sandbox_open",
    "sandbox_exec",
    "sandbox_exec_read",
    "sandbox_exec_wait",
    "sandbox_fs_write",
    "sandbox_fs_read",
    "sandbox_fs_list",
    "sandbox_fs_delete",
    "sandbox_close",
];

fn tools(home: &Home, flags: &[&str]) -> Vec<Value> {
    let client = Client::start(home, flags);
    let listed = client.request("tools/list", json!({}));
    client.finish().expect_code(0);
    listed["result"]["tools"].as_array().expect("a list").clone()
}

fn names(tools: &[Value]) -> Vec<&str> {
    tools.iter().filter_map(|tool| tool["name"].as_str()).collect()
}

#[test]
fn a_mode_brings_its_tools_and_no_others() {
    requires!(native);
    let home = Home::new();

    assert_eq!(names(&tools(&home, &[])), CODE);
    assert_eq!(names(&tools(&home, &["--mode", "code"])), CODE);
    assert_eq!(names(&tools(&home, &["--mode", "compute"])), ["sandbox_run"]);
    assert!(tools(&home, &["--mode", "none"]).is_empty());
    let more = tools(&home, &["--mode", "none", "--with", "ownership,snapshots"]);
    assert_eq!(
        names(&more),
        ["sandbox_fork", "sandbox_snapshot", "sandbox_claim", "sandbox_transfer", "sandbox_release"]
    );
}

#[test]
fn a_set_that_is_not_there_is_refused_with_what_there_is() {
    requires!(native);
    let home = Home::new();

    let git = home.call(["mcp", "--with", "git", "--json"]).run().error();
    let typo = home.call(["mcp", "--with", "snapshot", "--json"]).run().error();

    assert_eq!(git["kind"], "unsupported");
    assert_eq!(typo["kind"], "invalid");
    assert!(git["hint"].as_str().is_some_and(|hint| hint.contains("snapshots")), "{git}");
}

#[test]
fn every_tool_says_what_it_takes_answers_and_does() {
    requires!(native);
    let home = Home::new();

    for tool in tools(&home, &["--with", "all"]) {
        assert!(tool["description"].is_string() && tool["title"].is_string(), "{tool}");
        for schema in ["inputSchema", "outputSchema"] {
            assert_eq!(tool[schema]["type"], "object", "{tool}");
        }
        for hint in ["readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"] {
            assert!(tool["annotations"][hint].is_boolean(), "{tool}");
        }
    }
}

#[test]
fn a_sandbox_is_opened_worked_in_and_closed() {
    requires!(native);
    let home = Home::new();
    let client = Client::start(&home, &[]);
    let sandbox = client.open();

    client.data("sandbox_fs_write", json!({"sandbox_id": sandbox, "path": "a.txt", "contents": "6 7\n"}));
    let script = "read a b < a.txt; echo $((a * b)); exit 3";
    let ran = client.call("sandbox_exec", json!({"sandbox_id": sandbox, "cmd": ["sh", "-c", script]}));
    let listed = client.data("sandbox_fs_list", json!({"sandbox_id": sandbox, "path": "."}));
    let closed = client.data("sandbox_close", json!({"sandbox_id": sandbox}));

    // What a command exits with is a result.
    assert_eq!((&ran["isError"], &ran["structuredContent"]["exit_code"]), (&json!(false), &json!(3)));
    assert_eq!(ran["structuredContent"]["stdout"], "42\n");
    let text: Value = serde_json::from_str(ran["content"][0]["text"].as_str().expect("text")).expect("JSON");
    assert_eq!(text, ran["structuredContent"]);
    assert!(listed.to_string().contains("a.txt"), "{listed}");
    assert_eq!(closed["ok"], true);
    client.finish().expect_code(0);
}

#[test]
fn a_program_is_run_where_there_is_only_one_tool() {
    requires!(native);
    let home = Home::new();
    let client = Client::start(&home, &["--mode", "compute"]);

    let ran = client.data("sandbox_run", json!({"runtime": "python", "code": "print(6 * 7)"}));

    assert_eq!((&ran["ok"], &ran["stdout"]), (&json!(true), &json!("42\n")));
    assert!(home.live().is_empty());
}

#[test]
fn a_failure_is_an_answer_the_model_can_act_on() {
    requires!(native);
    let home = Home::new();
    let client = Client::start(&home, &[]);

    let missing = client.call("sandbox_exec", json!({"sandbox_id": "sbx_nope", "cmd": ["true"]}));
    let wrong = client.call("sandbox_exec", json!({"sandbox_id": "sbx_nope", "command": "true"}));

    for (result, kind) in [(&missing, "not_found"), (&wrong, "invalid")] {
        assert_eq!(result["isError"], true, "{result}");
        let error = &result["structuredContent"]["error"];
        assert_eq!(error["kind"], kind, "{result}");
        assert!(error["message"].is_string() && error["hint"].is_string(), "{result}");
        let text = result["content"][0]["text"].as_str().expect("text");
        assert_eq!(serde_json::from_str::<Value>(text).expect("JSON"), result["structuredContent"]);
    }
    assert_eq!(wrong["structuredContent"]["error"]["details"]["field"], "command");
}

#[test]
fn what_is_no_tool_here_is_an_error_of_the_protocol() {
    requires!(native);
    let home = Home::new();
    let client = Client::start(&home, &["--mode", "compute"]);

    let foreign = client.request("tools/call", json!({"name": "sandbox_close", "arguments": {}}));
    let unknown = client.request("tools/call", json!({"name": "no_such", "arguments": {}}));
    let unnamed = client.request("tools/call", json!({"arguments": {}}));
    let method = client.request("tools/destroy", json!({}));
    let page = client.request("tools/list", json!({"cursor": "2"}));

    assert_eq!(foreign["error"]["code"], -32602);
    assert_eq!(unknown["error"]["code"], -32602);
    assert!(unnamed["error"]["code"].is_i64(), "{unnamed}");
    assert_eq!(method["error"]["code"], -32601);
    assert_eq!(page["error"]["code"], -32602);
}

#[test]
fn a_client_that_comes_again_finds_its_sandbox() {
    requires!(native);
    let home = Home::new();
    let first = Client::start(&home, &["--run", "run_agent"]);
    let sandbox = first.open();
    assert_eq!(first.open(), sandbox, "in one conversation");
    let own = first.data("sandbox_open", json!({"session_key": "user:x"}));
    first.finish().expect_code(0);

    let again = Client::start(&home, &["--run", "run_agent"]);
    let found = again.data("sandbox_open", json!({}));

    assert_eq!((&found["sandbox_id"], &found["created"]), (&json!(sandbox), &json!(false)));
    assert_ne!(own["sandbox_id"], found["sandbox_id"]);
    let keys: Vec<Value> = home.live().iter().map(|record| record["session_key"].clone()).collect();
    assert!(keys.contains(&json!("agent:run_agent:default")), "{keys:?}");
}

#[test]
fn what_a_client_opened_goes_with_it_if_it_is_told_to_and_nothing_else_does() {
    requires!(native);
    let home = Home::new();
    let before = home.open();
    let client = Client::start(&home, &["--close-at-end"]);
    client.open();
    client.data("sandbox_open", json!({"session_key": "user:x"}));

    client.finish().expect_code(0);

    let left: Vec<Value> = home.live().iter().map(|record| record["sandbox_id"].clone()).collect();
    assert_eq!(left, [json!(before)]);
}
