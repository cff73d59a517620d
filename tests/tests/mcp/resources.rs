//! Files of a sandbox as resources.

use coracle_tests::{Home, requires};
use serde_json::json;

use crate::client::Client;

#[test]
fn a_file_is_read_by_its_uri() {
    requires!(native);
    let home = Home::new();
    let client = Client::start(&home, &[]);
    let sandbox = client.open();
    client.data("sandbox_fs_write", json!({"sandbox_id": sandbox, "path": "a b/c.txt", "contents": "é\n"}));
    client.data("sandbox_fs_write", json!({"sandbox_id": sandbox, "path": "bin", "contents_b64": "/wA="}));
    let read = |uri: String| client.request("resources/read", json!({"uri": uri}));

    let templates = client.request("resources/templates/list", json!({}));
    let text = read(format!("coracle://{sandbox}/a%20b/c.txt"));
    let absolute = read(format!("coracle://{sandbox}//workspace/a%20b/c.txt"));
    let binary = read(format!("coracle://{sandbox}/bin"));

    let template = &templates["result"]["resourceTemplates"][0]["uriTemplate"];
    assert_eq!(template, "coracle://{sandbox_id}/{+path}");
    assert_eq!(text["result"]["contents"][0]["text"], "é\n", "{text}");
    assert_eq!(absolute["result"]["contents"][0]["text"], "é\n", "{absolute}");
    assert_eq!(binary["result"]["contents"][0]["blob"], "/wA=", "{binary}");
}

#[test]
fn a_large_file_is_read_to_a_bound_and_says_so() {
    requires!(native);
    let home = Home::new();
    let client = Client::start(&home, &[]);
    let sandbox = client.open();
    let make =
        json!({"sandbox_id": sandbox, "cmd": ["sh", "-c", "head -c 3000000 /dev/zero | tr '\\0' x > large"]});
    client.data("sandbox_exec", make);

    let read = client.request("resources/read", json!({"uri": format!("coracle://{sandbox}/large")}));

    let contents = &read["result"]["contents"][0];
    assert_eq!(contents["text"].as_str().map(str::len), Some(1 << 20));
    assert_eq!(contents["_meta"], json!({"coracle/truncated": true, "coracle/size_bytes": 3_000_000}));
}

#[test]
fn a_missing_resource_is_an_error_of_the_protocol() {
    requires!(native);
    let home = Home::new();
    let client = Client::start(&home, &[]);
    let sandbox = client.open();
    let code = |uri: &str| client.request("resources/read", json!({"uri": uri}))["error"]["code"].clone();

    assert_eq!(code(&format!("coracle://{sandbox}/nope")), -32002);
    assert_eq!(code("coracle://sbx_nope/x"), -32002);
    assert_eq!(code("file:///etc/passwd"), -32602);
    assert_eq!(code("coracle://%zz/x"), -32602);
}

#[test]
fn without_the_tool_there_are_no_resources() {
    requires!(native);
    let home = Home::new();
    let client = Client::silent(&home, &["--mode", "compute"]);

    let introduced = client.initialize("2025-11-25");
    let read = client.request("resources/read", json!({"uri": "coracle://sbx_x/x"}));

    assert!(introduced["result"]["capabilities"]["resources"].is_null(), "{introduced}");
    assert_eq!(read["error"]["code"], -32601);
}
