//! One owner at a time, and the errors that other runs get.

use serde_json::json;

use crate::parity::stage::Stage;

pub fn play(stage: &mut Stage) {
    let sandbox = stage.open(&["--run", "run_a"]);
    let act = |stage: &mut Stage, run: &str, epoch: &str| {
        stage.call(&["exec", &sandbox, "--run", run, "--epoch", epoch, "--json", "--", "echo", "did"]);
    };
    let claim = |stage: &mut Stage, run: &str| drop(stage.call(&["claim", &sandbox, "--run", run, "--json"]));
    let transfer = |stage: &mut Stage, run: &str, to: &str, more: &[&str]| {
        let words = [&["transfer", &sandbox, "--run", run, "--to", to, "--json"], more].concat();
        stage.call(&words);
    };

    act(stage, "run_a", "1");
    act(stage, "run_b", "1");
    claim(stage, "run_a");
    claim(stage, "run_b");
    act(stage, "run_a", "9");
    transfer(stage, "run_b", "run_c", &[]);
    transfer(stage, "run_a", "run_b", &[]);
    for (run, epoch) in [("run_a", "1"), ("run_a", "2"), ("run_b", "1"), ("run_b", "2")] {
        act(stage, run, epoch);
    }
    stage.call(&["fs", "write", &sandbox, "note", "--run", "run_a", "--json"]);
    stage.call(&["close", &sandbox, "--run", "run_a", "--json"]);
    running(stage, &sandbox);
    stage.call(&["release", &sandbox, "--run", "run_b", "--json"]);
    for run in ["run_a", "run_b", "run_c"] {
        claim(stage, run);
        stage.call(&["fs", "list", &sandbox, "--run", run, "--json"]);
    }
    stage.call(&["release", &sandbox, "--run", "run_a", "--json"]);
    claim(stage, "run_d");
    stage.call(&["close", &sandbox, "--run", "run_d", "--json"]);
    claim(stage, "run_d");
}

/// Hands over with a command running: a conflict, then killed, then kept.
fn running(stage: &mut Stage, sandbox: &str) {
    let start = |stage: &mut Stage, run: &str, name: &str| {
        let words =
            ["exec", sandbox, "--run", run, "--detach", "--id", name, "--json", "--", "sleep", "1000"];
        stage.call(&words);
    };
    start(stage, "run_b", "first");
    stage.call(&["transfer", sandbox, "--run", "run_b", "--to", "run_c", "--json"]);
    stage.call(&["transfer", sandbox, "--run", "run_b", "--to", "run_c", "--running", "kill", "--json"]);
    stage.call(&["wait", sandbox, "first", "--run", "run_c", "--json"]);
    start(stage, "run_c", "second");
    stage.call(&["release", sandbox, "--run", "run_c", "--running", "keep", "--json"]);
    stage.call(&["wait", sandbox, "second", "--run", "run_b", "--timeout", "50ms", "--json"]);
    stage.call(&["stop", sandbox, "second", "--run", "run_c", "--json"]);
    stage.call(&["stop", sandbox, "second", "--run", "run_b", "--json"]);
    stage.operation("sandbox_exec_read", &json!({"sandbox_id": sandbox, "exec_id": "second"}));
}
