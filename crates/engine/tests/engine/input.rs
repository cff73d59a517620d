//! Input from outside: what is wrong is refused by name, and nothing panics.

use coracle_core::Kind;
use coracle_engine::{Catalogue, ops};
use serde_json::{Value, json};

use crate::world::World;

#[test]
fn wrong_input_is_invalid() {
    let world = World::new();
    let id = world.open("run_a");
    let long = "x".repeat(5000);
    let cases = [
        ("sandbox_exec", json!({"sandbox_id": id, "cmd": []})),
        ("sandbox_exec", json!({"sandbox_id": id, "cmd": [""]})),
        ("sandbox_exec", json!({"sandbox_id": id, "cmd": ["a\0b"]})),
        ("sandbox_exec", json!({"sandbox_id": id, "cmd": ["true", "a\0b"]})),
        ("sandbox_exec", json!({"sandbox_id": id, "cmd": [long]})),
        ("sandbox_exec", json!({"sandbox_id": id, "cmd": ["true", "y".repeat(200_000)]})),
        ("sandbox_exec", json!({"sandbox_id": id, "cmd": vec!["y".repeat(100_000); 20]})),
        ("sandbox_exec", json!({"sandbox_id": id, "cmd": "true"})),
        ("sandbox_exec", json!({"sandbox_id": id})),
        ("sandbox_exec", json!({"sandbox_id": id, "cmd": ["true"], "cwd": long})),
        ("sandbox_exec", json!({"sandbox_id": id, "cmd": ["true"], "cwd": ""})),
        ("sandbox_exec", json!({"sandbox_id": id, "cmd": ["true"], "env": {"A=B": "c"}})),
        ("sandbox_exec", json!({"sandbox_id": id, "cmd": ["true"], "env": {"": "c"}})),
        ("sandbox_exec", json!({"sandbox_id": id, "cmd": ["true"], "secrets": {"A": "\0"}})),
        ("sandbox_exec", json!({"sandbox_id": id, "cmd": ["true"], "user": ""})),
        ("sandbox_exec", json!({"sandbox_id": id, "cmd": ["true"], "timeout_seconds": 0})),
        ("sandbox_exec", json!({"sandbox_id": id, "cmd": ["true"], "timeout_seconds": -1})),
        ("sandbox_exec", json!({"sandbox_id": id, "cmd": ["true"], "timeout_seconds": u64::MAX})),
        ("sandbox_exec", json!({"sandbox_id": id, "cmd": ["true"], "timeout_seconds": 1.5})),
        ("sandbox_exec", json!({"sandbox_id": id, "cmd": ["true"], "timeout_seconds": 1, "timeout_ms": 1})),
        ("sandbox_exec", json!({"sandbox_id": id, "cmd": ["true"], "grace_ms": u64::MAX})),
        ("sandbox_exec", json!({"sandbox_id": id, "cmd": ["true"], "stdin": "a", "stdin_b64": "YQ=="})),
        ("sandbox_exec", json!({"sandbox_id": id, "cmd": ["true"], "stdin_b64": "%%%"})),
        ("sandbox_exec", json!({"sandbox_id": id, "cmd": ["true"], "stdin_open": true})),
        ("sandbox_exec", json!({"sandbox_id": id, "cmd": ["true"], "exec_id": "a/b"})),
        ("sandbox_exec", json!({"sandbox_id": "../x", "cmd": ["true"]})),
        ("sandbox_exec", json!({"sandbox_id": "", "cmd": ["true"]})),
        ("sandbox_exec_read", json!({"sandbox_id": id, "exec_id": "e", "max_chunks": 0})),
        ("sandbox_exec_read", json!({"sandbox_id": id, "exec_id": "e", "since_seq": -1})),
        ("sandbox_exec_wait", json!({"sandbox_id": id, "exec_id": "e", "timeout_seconds": 0})),
        ("sandbox_exec_write", json!({"sandbox_id": id, "exec_id": "e"})),
        ("sandbox_fs_write", json!({"sandbox_id": id, "path": "f"})),
        ("sandbox_fs_write", json!({"sandbox_id": id, "path": "", "contents": ""})),
        ("sandbox_fs_write", json!({"sandbox_id": id, "path": "a\0b", "contents": ""})),
        ("sandbox_fs_write", json!({"sandbox_id": id, "path": long, "contents": ""})),
        ("sandbox_fs_write", json!({"sandbox_id": id, "path": "f", "contents": "", "mode": "4755"})),
        ("sandbox_fs_write", json!({"sandbox_id": id, "path": "f", "contents": "", "mode": "0999"})),
        ("sandbox_fs_write", json!({"sandbox_id": id, "path": "f", "contents": "", "mode": ""})),
        ("sandbox_fs_write", json!({"sandbox_id": id, "path": "f", "contents": "", "mode": 420})),
        ("sandbox_fs_read", json!({"sandbox_id": id, "path": "f", "max_bytes": 0})),
        ("sandbox_fs_read", json!({"sandbox_id": id, "path": "f", "max_bytes": u64::MAX})),
        ("sandbox_fs_move", json!({"sandbox_id": id, "from": "f", "to": ""})),
        ("sandbox_open", json!({"session_key": ""})),
        ("sandbox_open", json!({"limits": {"memory_mb": 0}})),
        ("sandbox_open", json!({"limits": {"memmory": 1}})),
        ("sandbox_open", json!({"workdir": "relative"})),
        ("sandbox_transfer", json!({"sandbox_id": id, "to": "a b"})),
        ("sandbox_transfer", json!({"sandbox_id": id, "to": "run_b", "running": "maybe"})),
        ("sandbox_list", json!([])),
        ("sandbox_list", Value::Null),
    ];

    for (operation, input) in cases {
        let error = world.refused("run_a", operation, input.clone());
        let shown: String = input.to_string().chars().take(200).collect();
        assert_eq!(error.kind, Kind::Invalid, "{operation} {shown}: {}", error.chain());
        assert!(error.to_json().to_string().len() < 4000, "{operation}: the complaint repeats the input");
    }
}

#[test]
fn unknown_fields_are_refused_by_name_in_every_operation() {
    let world = World::new();

    for name in Catalogue::own().names() {
        let schema = Catalogue::own().expect(name).expect("it is there").schemas();
        let mut input = serde_json::Map::from_iter([("memmory".to_owned(), json!(1))]);
        // What is required comes along, so that only the unknown field is wrong.
        for field in schema["input"]["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            let value = if field == "cmd" { json!(["true"]) } else { json!("x") };
            input.insert(field.to_owned(), value);
        }
        let error = world.refused("run_a", name, Value::Object(input));
        assert_eq!(error.kind, Kind::Invalid, "{name}: {}", error.chain());
        assert_eq!(error.details.get("field"), Some(&json!("memmory")), "{name}: {}", error.chain());
    }
}

#[test]
fn the_specs_fields_stand_flat_in_open_and_run() {
    for name in ["sandbox_open", "sandbox_run"] {
        let schema = Catalogue::own().expect(name).expect("it is there").schemas();
        let fields = schema["input"]["properties"].as_object().expect("an object has properties");
        for field in [
            "image",
            "runtime",
            "env",
            "workdir",
            "limits",
            "network",
            "mounts",
            "privileges",
            "backend",
            "ttl",
            "labels",
        ] {
            assert!(fields.contains_key(field), "{name} lacks `{field}`: {schema}");
        }
    }
}

#[test]
fn complaints_are_short_and_keep_secrets() {
    let world = World::new();
    let secret = "hunter2".repeat(100);

    let typed =
        world.refused("run_a", "sandbox_exec", json!({"sandbox_id": "s", "cmd": [], "secrets": secret}));
    let nested = world.refused("run_a", "sandbox_run", json!({"cmd": ["true"], "secrets": {"A": [secret]}}));
    let long = world.refused("run_a", "sandbox_exec", json!({"sandbox_id": "s", "cmd": "x".repeat(1 << 20)}));

    for error in [typed, nested] {
        assert!(!error.to_json().to_string().contains("hunter2"), "{}", error.chain());
        assert!(error.details["field"].as_str().is_some_and(|field| field.starts_with("secrets")));
    }
    assert!(long.to_json().to_string().len() < 2000);
}

#[test]
fn every_operation_says_what_it_does_under_a_title_of_its_own() {
    let all = Catalogue::own().all();
    let mut titles: Vec<_> = all.iter().map(|entry| entry.facts.title).collect();
    titles.sort_unstable();
    titles.dedup();

    assert!(all.iter().all(|entry| !entry.facts.about.is_empty()));
    assert_eq!(titles.len(), all.len());
}

#[test]
fn a_misspelt_operation_gets_a_hint() {
    let world = World::new();

    let near = world.refused("run_a", "sandbox_exce", json!({}));
    let far = world.refused("run_a", &"z".repeat(100_000), json!({}));

    assert_eq!(near.kind, Kind::Invalid);
    assert!(near.hint.as_deref().is_some_and(|hint| hint.contains("sandbox_exec")), "{near:?}");
    assert!(far.to_json().to_string().len() < 2000);
}

#[test]
fn ambiguous_or_endless_json_is_refused() {
    let deep = [b"[".repeat(100_000), b"]".repeat(100_000)].concat();
    let wide = [b"\"".as_slice(), &b"x".repeat(ops::INPUT_MAX), b"\""].concat();
    let cases: [&[u8]; 12] = [
        b"",
        b"{",
        b"{} {}",
        b"{\"a\": 1, \"a\": 2}",
        b"{\"b\": [{\"a\": 1, \"a\": 1}]}",
        b"NaN",
        b"1e400",
        b"\"\\ud800\"",
        b"\xef\xbb\xbf{}",
        b"\"\xff\"",
        &deep,
        &wide,
    ];

    for case in cases {
        let shown = String::from_utf8_lossy(&case[..case.len().min(40)]).into_owned();
        assert_eq!(ops::parse(case).expect_err(&shown).kind, Kind::Invalid, "{shown}");
    }
    let many = format!("[{}0]", "0,".repeat(300_000));
    assert_eq!(ops::parse(many.as_bytes()).expect_err("too many values").kind, Kind::Invalid);
    assert!(ops::parse(format!("[{}0]", "0,".repeat(100_000)).as_bytes()).is_ok());
    assert_eq!(
        ops::parse(b" {\"a\": [1, -2, 3.5, true, null, \"x\"]} ").expect("ordinary JSON"),
        json!({"a": [1, -2, 3.5, true, null, "x"]})
    );
}
