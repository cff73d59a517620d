//! Refused calls, and their error messages.

use serde_json::{Value, json};

use crate::parity::stage::Stage;

pub fn play(stage: &mut Stage) {
    let specs = [
        json!({"bogus": 1}),
        json!({"limits": {"memory_mb": 0}}),
        json!({"limits": {"memory_mb": -1}}),
        json!({"limits": {"pids": 0}}),
        json!({"limits": {"cpu_millicores": "many"}}),
        json!({"env": {"A=B": "x"}}),
        json!({"env": {"A": "x\u{0}y"}}),
        json!({"workdir": "relative"}),
        json!({"session_key": ""}),
        json!({"ttl": "soon"}),
        json!({"network": "host"}),
        json!({"network": "allow="}),
        json!({"require": ["no such wall"]}),
        json!({"mounts": [{"source": "relative/path", "target": "/x"}]}),
        // In the home, because an engine may make a missing directory.
        json!({"mounts": [{"source": stage.local("absent"), "target": "/x"}]}),
        json!({"privileges": "all"}),
        json!({"storage": "cloud"}),
    ];
    for input in specs {
        let input = stage.spec(input);
        stage.operation("sandbox_open", &input);
    }
    let sandbox = stage.open(&[]);
    let commands = [
        json!({"cmd": []}),
        json!({"cmd": [""]}),
        json!({"cmd": ["a\u{0}b"]}),
        json!({"cmd": "true"}),
        json!({"cmd": ["true"], "timeout_ms": -1}),
        json!({"cmd": ["true"], "exec_id": "../up"}),
        json!({"cmd": ["true"], "stdin": "a", "stdin_b64": "YQ=="}),
        json!({"cmd": ["true"], "stdin_b64": "***"}),
        json!({"cmd": ["true"], "stdin_open": true}),
        json!({"cmd": ["true"], "env": {"": "x"}}),
    ];
    for mut input in commands {
        input["sandbox_id"] = json!(sandbox);
        stage.operation("sandbox_exec", &input);
    }
    strangers(stage);
    stage.call(&["network", &sandbox, "open", "--json"]);
    stage.call(&["network", &sandbox, "none", "--json"]);
    stage.call(&["close", &sandbox, "--json"]);
}

fn strangers(stage: &mut Stage) {
    let unknown = "sbx_00000000000000000000000000";
    let operations: [(&str, Value); 7] = [
        ("sandbox_get", json!({})),
        ("sandbox_exec", json!({"cmd": ["true"]})),
        ("sandbox_fs_read", json!({"path": "x"})),
        ("sandbox_exec_read", json!({"exec_id": "x"})),
        ("sandbox_claim", json!({})),
        ("sandbox_transfer", json!({"to": "run_b"})),
        ("sandbox_close", json!({})),
    ];
    for (name, mut input) in operations {
        input["sandbox_id"] = json!(unknown);
        stage.operation(name, &input);
    }
    stage.operation("sandbox_dance", &json!({}));
}
