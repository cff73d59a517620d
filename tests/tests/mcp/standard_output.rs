//! Standard output is the client's alone.

use coracle_tests::{Home, requires};
use serde_json::json;

use crate::client::{Client, messages};

fn descriptor(pid: u32, number: u32) -> String {
    let link = std::fs::read_link(format!("/proc/{pid}/fd/{number}")).expect("a descriptor of a child");
    link.to_string_lossy().into_owned()
}

#[test]
fn nothing_in_the_process_can_print_to_the_client() {
    requires!(native);
    let home = Home::new();
    let client = Client::start(&home, &[]);
    let pid = client.process.pid();

    assert_eq!(descriptor(pid, 0), "/dev/null");
    assert_eq!(descriptor(pid, 1), descriptor(pid, 2));
}

#[test]
fn nothing_it_starts_holds_the_clients_streams() {
    requires!(native);
    let home = Home::new();
    let client = Client::start(&home, &["--network", "allow=example.com"]);
    // Its network is held by a process of its own, which outlives the server.
    client.open();
    let open = |pid: u32| -> Vec<String> {
        let entries = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        entries
            .filter_map(|entry| Some(std::fs::read_link(entry.path()).ok()?.to_string_lossy().into_owned()))
            .collect()
    };
    let pid = client.process.pid();
    let pipes: Vec<String> = open(pid).into_iter().filter(|link| link.starts_with("pipe:")).collect();
    let stderr = descriptor(pid, 2);

    let others: Vec<u32> =
        home.census().processes.iter().map(|process| process.pid).filter(|other| *other != pid).collect();

    assert!(!others.is_empty() && pipes.len() >= 2, "{pipes:?}");
    for other in others {
        let shared: Vec<String> =
            open(other).into_iter().filter(|link| pipes.contains(link) && *link != stderr).collect();
        assert!(shared.is_empty(), "{other} holds {shared:?}");
    }
}

#[test]
fn a_server_that_cannot_begin_says_so_elsewhere() {
    requires!(native);
    let home = Home::new();
    std::fs::write(home.path().join("config.toml"), "nonsense = [").expect("the home can be written");

    let finished = home.call(["mcp"]).run();
    std::fs::remove_file(home.path().join("config.toml")).expect("it is there");

    assert_ne!(finished.code(), Some(0));
    assert!(finished.stdout.is_empty() && finished.stderr.contains("error"), "{finished}");
}

#[test]
fn talk_goes_to_standard_error() {
    requires!(native);
    let home = Home::new().env("RUST_LOG", "trace").env("CORACLE_LOG", "trace").env("RUST_BACKTRACE", "full");
    let client = Client::start(&home, &[]);
    let sandbox = client.open();
    client
        .call("sandbox_exec", json!({"sandbox_id": sandbox, "cmd": ["sh", "-c", "echo to; echo from >&2"]}));

    let finished = client.finish().expect_code(0);

    assert_eq!(messages(&finished.stdout).len(), 3, "{finished}");
}

#[test]
fn the_server_ends_with_its_input_whatever_was_said_before() {
    requires!(native);
    let home = Home::new();
    for said in
        ["", "\n\n", "{", "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n", "\u{0}\n"]
    {
        let finished = home.call(["mcp"]).stdin(said).run().expect_code(0);

        messages(&finished.stdout);
    }
}

#[test]
fn what_is_piped_in_is_answered_before_the_end() {
    requires!(native);
    let home = Home::new();
    // What takes longer than a moment is cancelled, and a busy machine makes a moment of it.
    let sandbox = home.open();
    let write = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "sandbox_fs_write",
        "arguments": {"sandbox_id": sandbox, "path": "note", "contents": "piped in"}}});
    let greeting = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "pipe", "version": "1"}}});
    let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});

    let ended = home.call(["mcp"]).stdin(format!("{greeting}\n{ready}\n{write}\n")).succeed();

    let answered = messages(&ended.stdout);
    let written = answered.iter().find(|message| message["id"] == 2).expect("an answer");
    assert_eq!(written["result"]["structuredContent"]["ok"], true, "{written}");
}
