//! `sandbox_run`: one command, and nothing left of its sandbox.

use coracle_core::{Backend, Kind};
use coracle_testing::{Fault, Step};
use serde_json::{Value, json};

use crate::world::World;

fn nothing_left(world: &World) -> bool {
    let live = world.ok("run_a", "sandbox_list", json!({}));
    world.backend.survey().expect("a survey").is_empty() && live["sandboxes"] == json!([])
}

#[test]
fn a_command_runs_and_its_sandbox_is_gone() {
    let world = World::new();

    let reply = world.ok(
        "run_a",
        "sandbox_run",
        json!({"cmd": ["cat", "/workspace/in.txt"], "files": {"in.txt": "data"}}),
    );

    assert_eq!(reply["ok"], true);
    assert_eq!(reply["exit_code"], 0);
    assert_eq!(reply["stdout"], "data");
    assert_eq!(reply["runtime"], Value::Null);
    assert_eq!(reply.get("error"), None);
    assert!(nothing_left(&world));
}

#[test]
fn failing_is_a_result() {
    let world = World::new();

    let failed = world.ok("run_a", "sandbox_run", json!({"cmd": ["false"]}));
    let late = world.ok("run_a", "sandbox_run", json!({"cmd": ["sleep", "60"], "timeout_ms": 10}));

    assert_eq!((&failed["ok"], &failed["exit_code"]), (&json!(false), &json!(1)));
    assert_eq!(late["exit_code"], Value::Null);
    assert!(late["error"].as_str().is_some_and(|error| error.starts_with("timed out")), "{late}");
    assert!(nothing_left(&world));
}

#[test]
fn code_goes_to_the_interpreter_of_its_runtime() {
    let world = World::new();

    // The fake guest knows no interpreter; that it was looked for is what shows.
    let error = world.refused("run_a", "sandbox_run", json!({"runtime": "node", "code": "1"}));

    assert_eq!(error.kind, Kind::ExecutionFailed);
    assert_eq!(error.details["exit_code"], 127);
    assert!(nothing_left(&world));
}

#[test]
fn an_error_while_preparing_leaves_nothing() {
    let world = World::new();

    let error = world.refused("run_a", "sandbox_run", json!({"cmd": ["true"], "files": {"../../out": ""}}));

    assert_eq!(error.details["errno"], "EXDEV");
    assert!(nothing_left(&world));
}

#[test]
fn the_result_outlives_a_removal_that_failed() {
    let world = World::new();
    world.backend.fail_at(Step::Destroy, Fault::Fail);

    let reply = world.ok("run_a", "sandbox_run", json!({"cmd": ["echo", "worth it"]}));

    assert_eq!(reply["stdout"], "worth it\n");
    assert_eq!(world.ok("run_a", "sandbox_list", json!({}))["sandboxes"][0]["state"], "destroy_failed");
    assert_eq!(world.engine.upkeep().sweep().expect("a sweep").finished, 1);
    assert!(nothing_left(&world));
}

#[test]
fn nothing_is_made_for_input_that_is_wrong() {
    let world = World::new();
    let wrong = [
        json!({}),
        json!({"cmd": ["true"], "code": "1"}),
        json!({"cmd": []}),
        json!({"cmd": ["true"], "args": ["x"]}),
        json!({"code": "1", "files": {"main.py": ""}}),
        json!({"cmd": ["true"], "files": {"a": ""}, "files_b64": {"a": ""}}),
        json!({"cmd": ["true"], "files_b64": {"a": "%"}}),
        json!({"cmd": ["true"], "timeout_seconds": 0}),
        json!({"cmd": ["true"], "memmory": 1}),
    ];

    for input in wrong {
        assert_eq!(world.refused("run_a", "sandbox_run", input.clone()).kind, Kind::Invalid, "{input}");
    }
    assert_eq!(world.backend.creates(), 0);
}
