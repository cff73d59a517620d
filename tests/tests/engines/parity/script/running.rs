//! Commands that run while others talk about them: reading, writing, waiting, stopping.

use serde_json::{Value, json};

use crate::parity::stage::Stage;

/// A command that prints each word it reads, and so lets the script set the pace.
const ECHO: &str = "while read word; do echo \"$word\"; done; echo end >&2; exit 5";

pub fn play(stage: &mut Stage) {
    let sandbox = stage.open(&[]);
    talk(stage, &sandbox);
    wait_and_stop(stage, &sandbox);
    // It waits for a file before it ends: how far a short one is right after its start is a matter of luck.
    let apart = "until [ -e end ]; do sleep 0.05; done; echo done; exit 3";
    stage.call(&["exec", &sandbox, "--json", "--detach", "--id", "apart", "--", "sh", "-c", apart]);
    stage.shell(&sandbox, "touch end");
    stage.call(&["wait", &sandbox, "apart", "--json"]);
    stage.call(&["logs", &sandbox, "apart", "--json"]);
    stage.call(&["logs", &sandbox, "apart"]);
    stage.call(&["logs", &sandbox, "apart", "--follow"]);
    stage.call(&["wait", &sandbox, "apart"]);
    for verb in ["wait", "stop", "logs"] {
        stage.call(&[verb, &sandbox, "never", "--json"]);
    }
    stage.call(&["close", &sandbox, "--json"]);
}

fn talk(stage: &mut Stage, sandbox: &str) {
    let about = |more: Value| {
        let mut input = json!({"sandbox_id": sandbox, "exec_id": "talk"});
        input.as_object_mut().expect("it is an object").extend(more.as_object().cloned().unwrap_or_default());
        input
    };
    stage.exec(sandbox, &["sh", "-c", ECHO], json!({"exec_id": "talk", "stream": true, "stdin_open": true}));
    for (turn, word) in ["one", "two", "three"].into_iter().enumerate() {
        stage.operation("sandbox_exec_write", &about(json!({"data": format!("{word}\n")})));
        assert!(stage.hears(sandbox, "talk", turn + 1), "`{word}` was not said");
        stage.operation("sandbox_exec_read", &about(json!({"since_seq": turn})));
    }
    stage.operation("sandbox_exec_wait", &about(json!({"timeout_ms": 50})));
    stage.operation("sandbox_exec_read", &about(json!({"since_seq": 1, "max_chunks": 1})));
    stage.operation("sandbox_exec_read", &about(json!({"since_seq": 99})));
    stage.operation("sandbox_exec_write", &about(json!({"eof": true})));
    stage.operation("sandbox_exec_wait", &about(json!({"timeout_seconds": 20})));
    stage.operation("sandbox_exec_read", &about(json!({"since_seq": 0})));
    stage.operation("sandbox_exec_write", &about(json!({"data": "late"})));
    stage.operation("sandbox_exec_stop", &about(json!({})));
}

fn wait_and_stop(stage: &mut Stage, sandbox: &str) {
    // A shell may or may not come to say that what it waited for was terminated.
    let commands = [
        ("plain", "echo up; sleep 1000"),
        ("polite", "exec 2>/dev/null; trap 'echo bye; exit 4' TERM; echo up; while :; do sleep 0.05; done"),
        ("stubborn", "exec 2>/dev/null; trap '' TERM; echo up; while :; do sleep 0.05; done"),
    ];
    for (name, script) in commands {
        let about = json!({"sandbox_id": sandbox, "exec_id": name});
        stage.exec(sandbox, &["sh", "-c", script], json!({"exec_id": name, "stream": true}));
        assert!(stage.hears(sandbox, name, 1), "`{name}` did not come up");
        stage.operation("sandbox_exec_read", &about);
        let mut stop = about.clone();
        stop["grace_ms"] = json!(if name == "stubborn" { 100 } else { 10_000 });
        stage.operation("sandbox_exec_stop", &stop);
        stage.operation("sandbox_exec_wait", &about);
        stage.operation("sandbox_exec_read", &about);
    }
}
