//! Bad input: a typed error each time, never a panic, never a change.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use coracle_tests::{Home, requires};
use serde_json::{Value, json};

/// Calls an operation with bad input and expects one of the kinds.
#[track_caller]
fn expect_refusal(home: &Home, operation: &str, input: &str, kinds: &[&str]) {
    let call = home.call(["call", operation, "-"]).stdin(input).run();
    let shown = format!("{operation} {}: {call}", &input[..input.len().min(300)]);
    assert!(!call.stderr.contains("panicked"), "{shown}");
    assert_eq!(call.code(), Some(125), "{shown}");
    let reply: Value =
        serde_json::from_slice(&call.stdout).unwrap_or_else(|_| panic!("stdout is not the error: {shown}"));
    let error = &reply["error"];
    assert!(kinds.contains(&error["kind"].as_str().unwrap_or_default()), "expected {kinds:?}: {shown}");
    assert!(error["message"].as_str().is_some_and(|message| !message.is_empty()), "{shown}");
}

#[test]
fn bad_specifications_are_invalid() {
    let home = Home::new();
    let limit = |name: &str, value: Value| json!({"limits": {name: value}}).to_string();
    let long_path = format!("/{}", "x".repeat(5000));
    let many_labels: Value =
        (0..1000).map(|n| (n.to_string(), json!("v"))).collect::<serde_json::Map<_, _>>().into();
    let table = [
        json!({"bogus": 1}).to_string(),
        json!({"limits": {"bogus": 1}}).to_string(),
        limit("memory_mb", json!(-1)),
        limit("memory_mb", json!(0)),
        limit("memory_mb", json!(1.5)),
        limit("memory_mb", json!("lots")),
        limit("memory_mb", json!(u64::MAX)),
        r#"{"limits": {"memory_mb": 99999999999999999999999999}}"#.to_owned(),
        r#"{"limits": {"memory_mb": 1e999}}"#.to_owned(),
        limit("cpu_millicores", json!(-500)),
        limit("pids", json!(0)),
        limit("pids", json!(i64::MIN)),
        limit("timeout_seconds", json!(-1)),
        limit("output_bytes", json!(u64::MAX)),
        json!({"limits": "bottomless"}).to_string(),
        json!({"env": {"A\u{0}B": "x"}}).to_string(),
        json!({"env": {"A": "x\u{0}y"}}).to_string(),
        json!({"env": {"": "x"}}).to_string(),
        json!({"env": {"A=B": "x"}}).to_string(),
        json!({"env": {"A": "x".repeat(200_000)}}).to_string(),
        json!({"env": {"A": 1}}).to_string(),
        json!({"workdir": "relative"}).to_string(),
        json!({"workdir": long_path}).to_string(),
        json!({"workdir": "/a\u{0}b"}).to_string(),
        json!({"session_key": ""}).to_string(),
        json!({"session_key": "a\u{0}b"}).to_string(),
        json!({"session_key": "k".repeat(5000)}).to_string(),
        json!({"ttl": "soon"}).to_string(),
        json!({"ttl": "99999999999999999999d"}).to_string(),
        json!({"ttl": "-1s"}).to_string(),
        json!({"labels": many_labels}).to_string(),
        json!({"runtime": "cobol"}).to_string(),
        json!([]).to_string(),
        json!("text").to_string(),
        json!(null).to_string(),
        String::new(),
        "{".to_owned(),
        "{}{}".to_owned(),
        "\u{feff}{}".to_owned(),
        "[".repeat(100_000),
        r#"{"env": {"A": "\ud800"}}"#.to_owned(),
    ];

    for input in &table {
        expect_refusal(&home, "sandbox_open", input, &["invalid", "limit_exceeded"]);
    }
    assert!(home.live().is_empty(), "refused input makes nothing");
}

#[test]
fn what_is_not_there_yet_is_said_to_be_so() {
    let home = Home::new();
    let kinds = ["unsupported", "not_available", "not_found", "image_not_found", "invalid"];

    for input in [
        json!({"network": "host"}),
        json!({"backend": "docker"}),
        json!({"backend": "no such"}),
        json!({"image": "no/such:image"}),
        json!({"mounts": [{"source": "/", "target": "/host"}]}),
    ] {
        expect_refusal(&home, "sandbox_open", &input.to_string(), &kinds);
    }
    assert!(home.live().is_empty());
}

#[test]
fn unknown_names_are_not_found() {
    requires!(native);
    let home = Home::new();
    let sandbox = home.open();
    let unknown = json!("sbx_00000000000000000000000000");
    let missing = ["not_found"];

    expect_refusal(
        &home,
        "sandbox_exec",
        &json!({"sandbox_id": unknown, "cmd": ["true"]}).to_string(),
        &missing,
    );
    expect_refusal(&home, "sandbox_get", &json!({"sandbox_id": unknown}).to_string(), &missing);
    expect_refusal(&home, "sandbox_close", &json!({"sandbox_id": unknown}).to_string(), &missing);
    expect_refusal(
        &home,
        "sandbox_fs_read",
        &json!({"sandbox_id": unknown, "path": "a"}).to_string(),
        &missing,
    );
    expect_refusal(
        &home,
        "sandbox_transfer",
        &json!({"sandbox_id": unknown, "to": "run_b"}).to_string(),
        &missing,
    );
    expect_refusal(
        &home,
        "sandbox_exec_read",
        &json!({"sandbox_id": sandbox, "exec_id": "exec_none"}).to_string(),
        &missing,
    );
    expect_refusal(
        &home,
        "sandbox_exec_wait",
        &json!({"sandbox_id": sandbox, "exec_id": "exec_none"}).to_string(),
        &missing,
    );
    expect_refusal(
        &home,
        "sandbox_exec_stop",
        &json!({"sandbox_id": sandbox, "exec_id": "exec_none"}).to_string(),
        &missing,
    );
    for id in ["", "../../etc", "sbx_\u{0}", "sbx /", &"s".repeat(5000), "sbx_ü"] {
        expect_refusal(
            &home,
            "sandbox_get",
            &json!({"sandbox_id": id}).to_string(),
            &["invalid", "not_found"],
        );
    }
    expect_refusal(&home, "no_such_operation", "{}", &["invalid", "not_found", "unsupported"]);
}

#[test]
fn bad_commands_are_invalid() {
    requires!(native);
    let home = Home::new();
    let sandbox = home.open();
    let fields = [
        json!({"cmd": []}),
        json!({"cmd": [""]}),
        json!({"cmd": ["a\u{0}b"]}),
        json!({"cmd": ["true", "a\u{0}b"]}),
        json!({"cmd": "true"}),
        json!({"cmd": ["true"], "bogus": 1}),
        json!({"cmd": ["true"], "env": {"A=": "x"}}),
        json!({"cmd": ["true"], "cwd": "a\u{0}b"}),
        json!({"cmd": ["true"], "cwd": "x".repeat(5000)}),
        json!({"cmd": ["true"], "timeout_seconds": -1}),
        json!({"cmd": ["true"], "timeout_ms": -1}),
        json!({"cmd": ["true"], "timeout_ms": u64::MAX}),
        json!({"cmd": ["true"], "exec_id": "../up"}),
        json!({"cmd": ["true"], "exec_id": ""}),
        json!({"cmd": ["true"], "exec_id": "e".repeat(5000)}),
        json!({"cmd": ["true"], "stdin_b64": "***"}),
        json!({"cmd": ["true"], "stdin": "a", "stdin_b64": "YQ=="}),
        json!({"cmd": ["true"], "user": "a\u{0}b"}),
        json!({}),
    ];

    for mut input in fields {
        input["sandbox_id"] = json!(sandbox);
        expect_refusal(&home, "sandbox_exec", &input.to_string(), &["invalid", "limit_exceeded"]);
    }
    // More than the kernel takes: refused by us or by it, but typed.
    let huge = json!({"sandbox_id": sandbox, "cmd": ["echo", "x".repeat(3 << 20)]}).to_string();
    expect_refusal(
        &home,
        "sandbox_exec",
        &huge,
        &["invalid", "limit_exceeded", "start_failed", "execution_failed"],
    );
    home.exec(&sandbox, ["true"]).succeed();
}

#[test]
fn bad_paths_are_invalid_and_leave_the_workspace_alone() {
    requires!(native);
    let home = Home::new();
    let sandbox = home.open();
    let long = "x".repeat(5000);
    let paths = ["", "../..", "../../etc/passwd", "./../x", "a\u{0}b", &long, &"d/".repeat(3000)];

    for path in paths {
        let read = json!({"sandbox_id": sandbox, "path": path}).to_string();
        let write = json!({"sandbox_id": sandbox, "path": path, "contents": "x"}).to_string();
        let away = json!({"sandbox_id": sandbox, "path": path, "recursive": true}).to_string();
        expect_refusal(&home, "sandbox_fs_read", &read, &["invalid"]);
        expect_refusal(&home, "sandbox_fs_write", &write, &["invalid"]);
        expect_refusal(&home, "sandbox_fs_delete", &away, &["invalid"]);
        expect_refusal(&home, "sandbox_fs_stat", &read, &["invalid"]);
    }
    let writes = [
        json!({"contents": "a", "contents_b64": "YQ=="}),
        json!({"contents_b64": "***"}),
        json!({"contents": "a", "mode": "9999"}),
        json!({"contents": "a", "mode": "-1"}),
        json!({"contents": "a", "mode": 420.5}),
        json!({"contents": "a", "bogus": true}),
    ];
    for mut input in writes {
        input["sandbox_id"] = json!(sandbox);
        input["path"] = json!("f");
        expect_refusal(&home, "sandbox_fs_write", &input.to_string(), &["invalid"]);
    }
    // Where this leads is known only after `a` was looked up.
    let around = json!({"sandbox_id": sandbox, "path": "a/../../b"}).to_string();
    expect_refusal(&home, "sandbox_fs_read", &around, &["invalid", "not_found"]);
    let listed = home.call(["fs", "list", &sandbox, ".", "--json"]).succeed().json();
    assert_eq!(listed, json!([]));
}

#[test]
fn the_workspace_itself_is_not_deleted() {
    requires!(native);
    let home = Home::new();
    let sandbox = home.open();

    for path in [".", "/workspace", "/"] {
        let deleted = home.call(["fs", "delete", &sandbox, path, "--recursive", "--json"]).run();
        assert!(!deleted.stderr.contains("panicked") && deleted.code() == Some(125), "{deleted}");
    }
    home.exec(&sandbox, ["sh", "-c", "cd /workspace && echo still > here"]).succeed();
}

#[test]
fn bad_readings_are_invalid() {
    requires!(native);
    let home = Home::new();
    let sandbox = home.open();
    home.call(["exec", &sandbox, "--id", "e", "--", "true"]).succeed();

    for fields in [
        json!({"since_seq": -1}),
        json!({"since_seq": "0"}),
        json!({"max_chunks": -1}),
        json!({"since_seq": 1e30}),
    ] {
        let mut input = fields;
        input["sandbox_id"] = json!(sandbox);
        input["exec_id"] = json!("e");
        expect_refusal(&home, "sandbox_exec_read", &input.to_string(), &["invalid"]);
    }
}

#[test]
fn bytes_that_are_not_utf8_pass_through_or_are_refused() {
    requires!(native);
    let home = Home::new();
    let sandbox = home.open();
    let odd = OsString::from_vec(vec![b'a', 0xff, 0xfe]);
    let call = |words: &[&OsStr]| home.call(words).run();

    let echoed =
        call(&["exec".as_ref(), sandbox.as_ref(), "--".as_ref(), "printf".as_ref(), "%s".as_ref(), &odd]);
    match echoed.code() {
        Some(0) => assert_eq!(echoed.stdout, odd.as_bytes()),
        _ => drop(echoed.expect_code(125)),
    }
    let written = home.call([OsStr::new("fs"), "write".as_ref(), sandbox.as_ref(), &odd]).stdin("x").run();
    match written.code() {
        Some(0) => home.call([OsStr::new("fs"), "read".as_ref(), sandbox.as_ref(), &odd]).succeed(),
        _ => written.expect_code(125),
    };
    for words in [
        [OsStr::new("show"), &odd].as_slice(),
        &[OsStr::new("exec"), &odd, "--".as_ref(), "true".as_ref()],
        &[OsStr::new("open"), "--key".as_ref(), &odd],
        &[OsStr::new("call"), &odd, "{}".as_ref()],
        &[&odd],
    ] {
        call(words).expect_code(125);
    }
    expect_refusal_bytes(&home, b"{\"env\": {\"A\": \"\xff\"}}");
}

fn expect_refusal_bytes(home: &Home, input: &[u8]) {
    let call = home.call(["call", "sandbox_open", "-"]).stdin(input).run();
    assert_eq!(call.error_kind(), "invalid");
}

#[test]
fn bad_runs_and_epochs_are_invalid() {
    requires!(native);
    let home = Home::new();
    let sandbox = home.open();

    for run in ["", "../x", "a b", "run_\n"] {
        assert_eq!(
            home.call(["--run", run, "exec", &sandbox, "--json", "--", "true"]).run().error_kind(),
            "invalid",
            "{run:?}"
        );
    }
    for epoch in ["-1", "x", "99999999999999999999999"] {
        home.call(["--epoch", epoch, "exec", &sandbox, "--", "true"]).run().expect_code(125);
    }
    let future = home.call(["--epoch", "4000000000", "exec", &sandbox, "--json", "--", "true"]).run();
    assert_eq!(future.error_kind(), "stale_epoch");
}
