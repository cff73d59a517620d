//! Commands: outcome, output, idempotence, input, stopping.

use coracle_core::{Kind, State};
use serde_json::{Value, json};

use crate::world::World;

#[test]
fn a_command_runs_to_its_end_with_its_output() {
    let world = World::new();
    let id = world.open("run_a");

    let reply = world.exec("run_a", &id, &["sh", "-c", "echo out; echo err >&2; exit 3"]);

    assert_eq!(reply["status"], "completed");
    assert_eq!(reply["exit_code"], 3);
    assert_eq!(reply["outcome"], json!({"kind": "exited", "code": 3}));
    assert_eq!(reply["stdout"], "out\n");
    assert_eq!(reply["stderr"], "err\n");
    assert_eq!(reply["stdout_bytes"], 4);
    assert_eq!(reply["truncated"], false);
    assert_eq!(reply["truncation"], Value::Null);
    assert_eq!(reply["limits_hit"], json!([]));
}

#[test]
fn a_timeout_is_an_outcome_and_not_an_error() {
    let world = World::new();
    let id = world.open("run_a");

    let reply = world.ok(
        "run_a",
        "sandbox_exec",
        json!({"sandbox_id": id, "cmd": ["sleep", "60"], "timeout_ms": 20}),
    );

    assert_eq!(reply["outcome"], json!({"kind": "timed_out"}));
    assert_eq!(reply["exit_code"], Value::Null);
    assert_eq!(reply["limits_hit"], json!(["wall_time"]));
}

#[test]
fn truncated_output_says_so() {
    let world = World::new();
    let opened = world.ok("run_a", "sandbox_open", json!({"limits": {"output_bytes": 1024}}));
    let long = "x".repeat(2000);

    let reply =
        world.ok("run_a", "sandbox_exec", json!({"sandbox_id": opened["sandbox_id"], "cmd": ["echo", long]}));

    assert_eq!(reply["truncated"], true);
    assert_eq!(reply["truncation"], json!({"from": 1, "bytes": 2001}));
    assert_eq!(reply["stdout_bytes"], 2001);
    assert_eq!(reply["limits_hit"], json!(["output"]));
}

#[test]
fn a_missing_program_is_not_an_outcome() {
    let world = World::new();
    let id = world.open("run_a");

    let error = world.refused("run_a", "sandbox_exec", json!({"sandbox_id": id, "cmd": ["no-such-program"]}));

    assert_eq!(error.kind, Kind::ExecutionFailed);
    assert_eq!(error.details["stage"], "execute");
    assert_eq!(error.details["errno"], "ENOENT");
    assert_eq!(error.details["exit_code"], 127);
}

#[test]
fn one_exec_id_starts_one_command() {
    let world = World::new();
    let id = world.open("run_a");
    let ask = |cmd: &[&str]| json!({"sandbox_id": id, "cmd": cmd, "exec_id": "mine"});

    let first = world.ok("run_a", "sandbox_exec", ask(&["echo", "one"]));
    let second = world.ok("run_a", "sandbox_exec", ask(&["echo", "one"]));
    let other = world.refused("run_a", "sandbox_exec", ask(&["echo", "two"]));

    assert_eq!(first["exec_id"], "mine");
    assert_eq!(first["stdout"], second["stdout"]);
    assert_eq!(second["stdout_bytes"], 4);
    assert_eq!(other.kind, Kind::Conflict);
}

#[test]
fn input_is_given_once_even_if_asked_twice() {
    let world = World::new();
    let id = world.open("run_a");
    let ask = json!({"sandbox_id": id, "cmd": ["cat"], "stdin": "hello", "exec_id": "mine"});

    let first = world.ok("run_a", "sandbox_exec", ask.clone());
    let second = world.ok("run_a", "sandbox_exec", ask);

    assert_eq!(first["stdout"], "hello");
    assert_eq!(second["stdout"], "hello");
}

#[test]
fn large_input_arrives_whole() {
    let world = World::new();
    let id = world.open("run_a");
    let text = "0123456789abcdef".repeat(60_000);

    let reply = world.ok("run_a", "sandbox_exec", json!({"sandbox_id": id, "cmd": ["cat"], "stdin": text}));

    assert_eq!(reply["stdout"].as_str().map(str::len), Some(text.len()));
}

#[test]
fn a_command_that_wants_no_input_is_not_disturbed_by_it() {
    let world = World::new();
    let id = world.open("run_a");

    let reply =
        world.ok("run_a", "sandbox_exec", json!({"sandbox_id": id, "cmd": ["true"], "stdin": "unread"}));
    let long = json!({"sandbox_id": id, "cmd": ["true"], "stdin": "unread".repeat(500_000)});
    let much = world.ok("run_a", "sandbox_exec", long);

    assert_eq!([&reply["exit_code"], &much["exit_code"]], [0, 0]);
}

#[test]
fn bytes_that_are_no_text_come_as_base64() {
    let world = World::new();
    let id = world.open("run_a");

    let reply =
        world.ok("run_a", "sandbox_exec", json!({"sandbox_id": id, "cmd": ["cat"], "stdin_b64": "/w=="}));

    assert_eq!(reply.get("stdout"), None);
    assert_eq!(reply["stdout_b64"], "/w==");
}

#[test]
fn environment_and_secrets_reach_the_command() {
    let world = World::new();
    let opened = world.ok("run_a", "sandbox_open", json!({"env": {"WHERE": "sandbox"}}));
    let print = |name: &str| {
        let ask = json!({"sandbox_id": opened["sandbox_id"], "cmd": ["printenv", name], "env": {"E": "env"}, "secrets": {"S": "secret"}});
        world.ok("run_a", "sandbox_exec", ask)["stdout"].clone()
    };

    assert_eq!(
        [print("WHERE"), print("E"), print("S")],
        [json!("sandbox\n"), json!("env\n"), json!("secret\n")]
    );
}

#[test]
fn secrets_are_not_shown_by_debug() {
    let input: coracle_engine::ops::sandbox::exec::Input = serde_json::from_value(
        json!({"sandbox_id": "sbx_1", "cmd": ["true"], "secrets": {"TOKEN": "hunter2"}}),
    )
    .expect("the input is valid");

    let shown = format!("{input:?}");

    assert!(!shown.contains("hunter2"), "{shown}");
}

#[test]
fn a_streamed_exec_is_read_and_waited_for() {
    let world = World::new();
    let id = world.open("run_a");
    let cmd = ["sh", "-c", "echo one; echo two >&2"];
    let started = world.ok("run_a", "sandbox_exec", json!({"sandbox_id": id, "cmd": cmd, "stream": true}));
    let exec = &started["exec_id"];

    let waited = world.ok("run_a", "sandbox_exec_wait", json!({"sandbox_id": id, "exec_id": exec}));
    let all = world.ok("run_a", "sandbox_exec_read", json!({"sandbox_id": id, "exec_id": exec}));
    let first =
        world.ok("run_a", "sandbox_exec_read", json!({"sandbox_id": id, "exec_id": exec, "max_chunks": 1}));
    let rest =
        world.ok("run_a", "sandbox_exec_read", json!({"sandbox_id": id, "exec_id": exec, "since_seq": 1}));

    assert_eq!(started.get("stdout"), None);
    assert_eq!(waited["done"], true);
    assert_eq!(waited["exit_code"], 0);
    assert_eq!(
        all["chunks"],
        json!([{"seq": 1, "stream": "stdout", "text": "one\n"}, {"seq": 2, "stream": "stderr", "text": "two\n"}])
    );
    assert_eq!(all["done"], true);
    assert_eq!(all["outcome"], json!({"kind": "exited", "code": 0}));
    assert_eq!(first["done"], false);
    assert_eq!(first["chunks"].as_array().map(Vec::len), Some(1));
    assert_eq!(rest["chunks"][0]["seq"], 2);
}

#[test]
fn waiting_with_a_timeout_returns_without_the_end() {
    let world = World::new();
    let id = world.open("run_a");
    let exec = world.start_sleeper("run_a", &id);

    let reply =
        world.ok("run_a", "sandbox_exec_wait", json!({"sandbox_id": id, "exec_id": exec, "timeout_ms": 20}));

    assert_eq!(reply["done"], false);
    assert_eq!(reply["status"], "running");
    assert_eq!(reply["outcome"], Value::Null);
}

#[test]
fn a_stopped_exec_says_so() {
    let world = World::new();
    let id = world.open("run_a");
    let exec = world.start_sleeper("run_a", &id);

    let reply =
        world.ok("run_a", "sandbox_exec_stop", json!({"sandbox_id": id, "exec_id": exec, "grace_ms": 0}));

    assert_eq!(reply["done"], true);
    assert_eq!(reply["outcome"], json!({"kind": "stopped"}));
}

#[test]
fn input_can_be_written_later() {
    let world = World::new();
    let id = world.open("run_a");
    let ask = json!({"sandbox_id": id, "cmd": ["cat"], "stream": true, "stdin_open": true, "exec_id": "e"});
    world.ok("run_a", "sandbox_exec", ask);

    world.ok("run_a", "sandbox_exec_write", json!({"sandbox_id": id, "exec_id": "e", "data": "one "}));
    world.ok(
        "run_a",
        "sandbox_exec_write",
        json!({"sandbox_id": id, "exec_id": "e", "data_b64": "dHdv", "eof": true}),
    );
    world.ok("run_a", "sandbox_exec_wait", json!({"sandbox_id": id, "exec_id": "e"}));
    let read = world.ok("run_a", "sandbox_exec_read", json!({"sandbox_id": id, "exec_id": "e"}));

    let texts = read["chunks"].as_array().expect("chunks").iter().filter_map(|chunk| chunk["text"].as_str());
    assert_eq!(texts.collect::<String>(), "one two");
}

#[test]
fn an_unknown_exec_is_not_found() {
    let world = World::new();
    let id = world.open("run_a");

    for operation in ["sandbox_exec_read", "sandbox_exec_wait", "sandbox_exec_stop"] {
        let error = world.refused("run_a", operation, json!({"sandbox_id": id, "exec_id": "nobody"}));
        assert_eq!(error.kind, Kind::NotFound, "{operation}");
    }
}

#[test]
fn a_guest_that_dies_makes_the_exec_and_the_sandbox_lost() {
    let world = World::new();
    let id = world.open_without_sleep("run_a", None);
    let exec = world.start_sleeper("run_a", &id);

    let waited = std::thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            world.ok(
                "run_a",
                "sandbox_exec",
                json!({"sandbox_id": id, "cmd": ["sh", "-c", "echo hi; sleep 60"]}),
            )
        });
        // The exec is in the list once it has started.
        while world.ok("run_a", "sandbox_get", json!({"sandbox_id": id}))["guest"]["running"] != 2 {}
        world.backend.kill_guest(&id);
        waiting.join().expect("the waiter does not panic")
    });
    let after = world.refused("run_a", "sandbox_exec_wait", json!({"sandbox_id": id, "exec_id": exec}));
    let again = world.refused("run_a", "sandbox_exec", json!({"sandbox_id": id, "cmd": ["true"]}));

    assert_eq!(waited["outcome"], json!({"kind": "lost"}));
    assert_eq!(after.kind, Kind::NotAvailable);
    assert_eq!(again.kind, Kind::NotAvailable);
    assert!(again.message.contains("is lost"), "{}", again.message);
    assert_eq!(world.record(&id).state, State::Lost);
}

/// The command line reads the record once more, to find a sandbox by its name.
#[test]
fn a_command_costs_one_reading_of_the_record_and_one_connection() {
    let world = World::new();
    let id = world.open("run_a");
    let captured = || drop(world.exec("run_a", &id, &["true"]));
    let started = || drop(world.start_sleeper("run_a", &id));
    let written = || {
        let input = json!({"sandbox_id": id, "path": "note", "contents": "x"});
        drop(world.ok("run_a", "sandbox_fs_write", input));
    };

    for deed in [&captured as &dyn Fn(), &started, &written] {
        let before = (world.store.reads(), world.backend.connects());
        deed();
        assert_eq!((world.store.reads() - before.0, world.backend.connects() - before.1), (1, 1));
    }
}
