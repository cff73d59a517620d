//! Every revision of the protocol is spoken, from the first to the current.

use coracle_tests::{Home, requires};
use serde_json::{Value, json};

use crate::client::Client;

fn inline(params: Value) -> Value {
    let mut params = params;
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "coracle-tests", "version": "1"},
    });
    params
}

#[test]
fn older_clients_shake_hands() {
    requires!(native);
    let home = Home::new();
    for version in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
        let client = Client::silent(&home, &[]);

        let introduced = client.initialize(version);
        let listed = client.request("tools/list", json!({}));

        assert_eq!(introduced["result"]["protocolVersion"], version);
        assert_eq!(introduced["result"]["serverInfo"]["name"], "coracle");
        assert_eq!(listed["result"]["tools"].as_array().map(Vec::len), Some(9), "{version}");
        client.finish().expect_code(0);
    }
}

#[test]
fn a_client_of_the_future_is_offered_what_there_is() {
    requires!(native);
    let home = Home::new();
    let client = Client::silent(&home, &[]);

    let introduced = client.initialize("2099-01-01");

    assert_eq!(introduced["result"]["protocolVersion"], "2025-11-25", "{introduced}");
}

#[test]
fn the_current_revision_needs_no_handshake() {
    requires!(native);
    let home = Home::new();
    let client = Client::silent(&home, &[]);

    let discovered = client.request("server/discover", inline(json!({})));
    let listed = client.request("tools/list", inline(json!({})));
    let opened = client.request("tools/call", inline(json!({"name": "sandbox_open", "arguments": {}})));

    let versions = discovered["result"]["supportedVersions"].as_array().expect("a list");
    assert!(versions.contains(&json!("2026-07-28")), "{discovered}");
    assert_eq!(listed["result"]["tools"].as_array().map(Vec::len), Some(9), "{listed}");
    assert!(listed["result"]["ttlMs"].is_u64() && listed["result"]["cacheScope"] == "private", "{listed}");
    assert_eq!(opened["result"]["structuredContent"]["created"], true, "{opened}");
}

#[test]
fn a_client_that_begins_with_nonsense_may_begin_again() {
    requires!(native);
    let home = Home::new();
    let client = Client::silent(&home, &[]);
    client.notify("notifications/initialized", json!({}));
    client.raw(b"{\"jsonrpc\":\"2.0\",\"id\":99,\"result\":{}}\nnonsense\n[]\n");

    let introduced = client.initialize("2025-06-18");

    assert_eq!(introduced["result"]["protocolVersion"], "2025-06-18");
}
