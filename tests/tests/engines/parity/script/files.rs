//! Files one by one: contents, modes, kinds, names, and every way to fail.

use serde_json::{Value, json};

use crate::parity::stage::Stage;

pub fn play(stage: &mut Stage) {
    let sandbox = stage.open(&[]);
    contents(stage, &sandbox);
    links(stage, &sandbox);
    directories(stage, &sandbox);
    moves(stage, &sandbox);
    failures(stage, &sandbox);
    odd(stage, &sandbox);
    rights(stage, &sandbox);
    stage.call(&["close", &sandbox, "--json"]);
}

fn about(stage: &mut Stage, operation: &str, sandbox: &str, mut input: Value) {
    input["sandbox_id"] = json!(sandbox);
    stage.operation(&format!("sandbox_fs_{operation}"), &input);
}

fn contents(stage: &mut Stage, sandbox: &str) {
    let writes = [
        json!({"path": "text", "contents": "one\ntwo\n"}),
        json!({"path": "empty", "contents": ""}),
        json!({"path": "binary", "contents_b64": "AAH/gIE="}),
        json!({"path": "deep/er/file", "contents": "made its way"}),
        json!({"path": "/tmp/absolute", "contents": "elsewhere"}),
        json!({"path": "script", "contents": "#!/bin/sh\necho run\n", "mode": "0755"}),
        json!({"path": "private", "contents": "x", "mode": "0600"}),
        json!({"path": "text", "contents": "again", "overwrite": false}),
        json!({"path": "text", "contents": "replaced\n"}),
        json!({"path": "bad", "contents": "x", "mode": "rwx"}),
        json!({"path": "bad", "contents": "x", "contents_b64": "eA=="}),
        json!({"path": "bad"}),
    ];
    for input in writes {
        about(stage, "write", sandbox, input);
    }
    for path in ["text", "empty", "binary", "deep/er/file", "/tmp/absolute", "./text", "deep/../text"] {
        about(stage, "read", sandbox, json!({"path": path}));
    }
    for bytes in [0, 1, 4, 100] {
        about(stage, "read", sandbox, json!({"path": "text", "max_bytes": bytes}));
    }
    for path in ["text", "empty", "script", "private", "deep", "/", ".", "/etc/passwd", "/dev/null"] {
        about(stage, "stat", sandbox, json!({"path": path}));
    }
    stage
        .shell(sandbox, "./script; ls -ln | grep -v total | awk '{print $1, $3, $4, $NF}'; cat deep/er/file");
    let large: Vec<u8> = (0..3_000_000u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    stage.call_with(&["fs", "write", sandbox, "large"], &large);
    stage.shell(sandbox, "sha256sum large; stat -c %s large");
    assert!(stage.call(&["fs", "read", sandbox, "large"]).stdout == large, "bytes come back as they went");
    about(stage, "read", sandbox, json!({"path": "large", "max_bytes": 10}));
}

fn links(stage: &mut Stage, sandbox: &str) {
    let script = "ln -s text link; ln -s none dangling; ln -s /etc/passwd out; ln -s loop loop; ln text hard; \
                  ln -s deep/er way; ln -s ../../../../etc/group up; mkfifo fifo";
    stage.shell(sandbox, script);
    for path in ["link", "dangling", "out", "loop", "hard", "way/file", "up", "fifo"] {
        about(stage, "stat", sandbox, json!({"path": path}));
        about(stage, "read", sandbox, json!({"path": path}));
    }
    about(stage, "write", sandbox, json!({"path": "link", "contents": "through a link\n"}));
    about(stage, "write", sandbox, json!({"path": "dangling", "contents": "at its end"}));
    about(stage, "write", sandbox, json!({"path": "loop", "contents": "never"}));
    about(stage, "write", sandbox, json!({"path": "fifo", "contents": "never"}));
    stage.shell(sandbox, "ls -l | grep -v total | awk '{print $1, $9, $10, $11}'; cat text hard");
    for path in ["link", "dangling", "loop", "fifo", "way"] {
        about(stage, "delete", sandbox, json!({"path": path}));
    }
    stage.shell(sandbox, "ls; ls deep/er");
}

fn directories(stage: &mut Stage, sandbox: &str) {
    stage.shell(
        sandbox,
        "mkdir -p list/inner/most; echo 1 > list/one; echo 22 > list/inner/two; ln -s one list/link",
    );
    for (path, recursive) in [("list", false), ("list", true), ("list/inner/most", true), ("list/one", false)]
    {
        about(stage, "list", sandbox, json!({"path": path, "recursive": recursive}));
    }
    about(stage, "list", sandbox, json!({"path": "/home"}));
    about(stage, "delete", sandbox, json!({"path": "list"}));
    about(stage, "delete", sandbox, json!({"path": "list/inner/most"}));
    about(stage, "delete", sandbox, json!({"path": "list", "recursive": true}));
    about(stage, "delete", sandbox, json!({"path": "list", "recursive": true}));
    stage.shell(sandbox, "mkdir many; cd many; seq 1 300 | xargs touch; ls | wc -l");
    about(stage, "list", sandbox, json!({"path": "many"}));
    about(stage, "delete", sandbox, json!({"path": "many", "recursive": true}));
}

fn moves(stage: &mut Stage, sandbox: &str) {
    stage.shell(sandbox, "mkdir target; echo a > a; echo b > b; echo c > target/c");
    let moves = [
        json!({"from": "a", "to": "moved"}),
        json!({"from": "moved", "to": "b"}),
        json!({"from": "moved", "to": "b", "overwrite": true}),
        json!({"from": "none", "to": "x"}),
        json!({"from": "b", "to": "target"}),
        json!({"from": "b", "to": "new/place"}),
        json!({"from": "target", "to": "renamed"}),
        json!({"from": "renamed", "to": "renamed/below"}),
        json!({"from": "/etc/passwd", "to": "/etc/passwd"}),
    ];
    for input in moves {
        about(stage, "move", sandbox, input);
    }
    stage.shell(sandbox, "ls -p; cat new/place b");
}

fn failures(stage: &mut Stage, sandbox: &str) {
    let long = "x".repeat(300);
    for path in ["none", "text/below", "deep", "", "/", "../../etc/shadow", &long, "a\u{0}b"] {
        about(stage, "read", sandbox, json!({"path": path}));
    }
    for path in ["text/below", "deep", "", "/", "..", "/proc/self/mem", "/proc/1/mem", "/dev/null", &long] {
        about(stage, "write", sandbox, json!({"path": path, "contents": "x"}));
    }
    for path in ["none", "", "/", ".", "/workspace", "/proc", "/dev", "/dev/null", "/none/x"] {
        about(stage, "delete", sandbox, json!({"path": path, "recursive": true}));
    }
    for path in ["none", "", "/proc/self/fd/0", "/proc/1/root", "/.coracle", "/.coracle/guest"] {
        about(stage, "stat", sandbox, json!({"path": path}));
    }
    about(stage, "list", sandbox, json!({"path": "none"}));
    about(stage, "list", sandbox, json!({"path": "/.coracle"}));
}

fn odd(stage: &mut Stage, sandbox: &str) {
    stage.shell(
        sandbox,
        "mkdir odd; cd odd; touch \"$(printf 'caf\\351')\" 'with space' \"$(printf 'new\\nline')\" -- -dash",
    );
    about(stage, "list", sandbox, json!({"path": "odd"}));
    about(stage, "write", sandbox, json!({"path": "odd/\u{fc}n\u{ef}", "contents": "x"}));
    about(stage, "read", sandbox, json!({"path": "odd/with space"}));
    about(stage, "delete", sandbox, json!({"path": "odd/-dash"}));
    stage.shell(sandbox, "ls odd | wc -l");
    stage.shell(
        sandbox,
        "touch -d '2001-02-03 04:05:06' old; chmod 4755 old; stat -c '%a %Y' old; umask 077; echo x > mine",
    );
    about(stage, "stat", sandbox, json!({"path": "mine"}));
    about(stage, "stat", sandbox, json!({"path": "old"}));
}

fn rights(stage: &mut Stage, sandbox: &str) {
    let script =
        "mkdir -m 777 open; echo secret > closed; chmod 000 closed; echo roots > roots; chmod 600 roots";
    stage.shell(sandbox, script);
    for user in
        [None, Some("root"), Some("worker"), Some("1000:1000"), Some("0:0"), Some("nobody-here"), Some("")]
    {
        for path in ["closed", "roots", "open"] {
            about(stage, "read", sandbox, json!({"path": path, "user": user}));
        }
        let path = format!("open/{}", user.unwrap_or("default"));
        about(stage, "write", sandbox, json!({"path": path, "contents": "x", "user": user}));
        about(stage, "write", sandbox, json!({"path": "roots", "contents": "roots", "user": user}));
        about(stage, "move", sandbox, json!({"from": "closed", "to": "closed", "user": user}));
        about(stage, "delete", sandbox, json!({"path": "none", "user": user}));
        about(stage, "list", sandbox, json!({"path": "open", "user": user}));
        about(stage, "stat", sandbox, json!({"path": "roots", "user": user}));
    }
    stage.shell(sandbox, "stat -c '%n %u %g %a' open/* roots closed");
}
