//! Commands to their end: codes, signals, deadlines, input, what they leave behind.

use serde_json::json;

use crate::parity::stage::Stage;

pub fn play(stage: &mut Stage) {
    let sandbox = stage.open(&[]);
    for code in ["0", "1", "2", "100", "125", "126", "127", "128", "137", "143", "255"] {
        stage.shell(&sandbox, &format!("exit {code}"));
    }
    for signal in ["HUP", "INT", "QUIT", "KILL", "SEGV", "TERM", "USR1"] {
        stage.shell(&sandbox, &format!("kill -{signal} $$"));
    }
    programs(stage, &sandbox);
    deadlines(stage, &sandbox);
    input(stage, &sandbox);
    leftovers(stage, &sandbox);
    terminals(stage, &sandbox);
    stage.call(&["close", &sandbox, "--json"]);
}

fn programs(stage: &mut Stage, sandbox: &str) {
    stage.shell(sandbox, "echo text > plain; printf '#!/none\\n' > broken; chmod +x broken; mkdir directory");
    stage.shell(sandbox, "printf '#!/bin/sh\\necho by path $0 $1\\n' > script; chmod +x script");
    for program in ["none", "/none", "./plain", "./broken", "./directory", "/etc/passwd/x", "./script"] {
        stage.exec(sandbox, &[program, "argument"], json!({}));
    }
    stage.exec(sandbox, &["echo", "", "two  spaces", "\u{fc}", "$HOME", "*", "-n"], json!({}));
    stage.exec(sandbox, &["env"], json!({"exec_id": "named", "env": {"X": "1"}}));
    stage.exec(sandbox, &["env"], json!({"exec_id": "named", "env": {"X": "1"}}));
    stage.exec(sandbox, &["true"], json!({"exec_id": "named"}));
}

fn deadlines(stage: &mut Stage, sandbox: &str) {
    let stubborn = "exec 2>/dev/null; trap '' TERM; echo up; while :; do sleep 0.05; done";
    let polite = "exec 2>/dev/null; trap 'echo bye; exit 3' TERM; echo up; while :; do sleep 0.05; done";
    stage.exec(sandbox, &["sleep", "1000"], json!({"timeout_ms": 200}));
    // Time enough for a shell to have come as far as its trap, on a machine that others keep busy.
    stage.exec(sandbox, &["sh", "-c", stubborn], json!({"timeout_ms": 4000, "grace_ms": 100}));
    stage.exec(sandbox, &["sh", "-c", polite], json!({"timeout_ms": 4000, "grace_ms": 20_000}));
    stage.exec(sandbox, &["sh", "-c", "echo quick"], json!({"timeout_seconds": 20}));
    stage.call(&["exec", sandbox, "--json", "--timeout", "200ms", "--", "sleep", "1000"]);
}

fn input(stage: &mut Stage, sandbox: &str) {
    stage.exec(sandbox, &["cat"], json!({}));
    stage.exec(sandbox, &["cat"], json!({"stdin": "some text\n"}));
    stage.exec(sandbox, &["wc", "-c"], json!({"stdin": "x".repeat(1_000_000)}));
    stage.exec(sandbox, &["cat"], json!({"stdin_b64": "AP+AgQ=="}));
    stage.exec(sandbox, &["true"], json!({"stdin": "x".repeat(1_000_000)}));
    stage.exec(sandbox, &["sh", "-c", "exec 0<&-; echo closed"], json!({"stdin": "x".repeat(200_000)}));
    stage.call_with(&["exec", sandbox, "-i", "--", "cat"], b"through the command line\n");
    stage.call_with(&["exec", sandbox, "--", "cat"], b"not passed on\n");
}

fn leftovers(stage: &mut Stage, sandbox: &str) {
    let count = "ps | grep -c '[s]leep 4711'";
    stage.shell(
        sandbox,
        "sleep 47110 & setsid sleep 47111 & (setsid sh -c 'sleep 47112 & sleep 47113' &); echo left",
    );
    stage.shell(sandbox, count);
    stage.shell(sandbox, "trap '' TERM HUP; (trap '' TERM HUP; sleep 47114) & echo left");
    stage.shell(sandbox, count);
    let kept = ["exec", sandbox, "--json", "--keep-background", "--", "sh", "-c", "sleep 47115 & echo kept"];
    stage.call(&kept);
    stage.shell(sandbox, count);
    stage.shell(sandbox, "pkill -f 'sleep 47115'; echo $?");
    stage.shell(sandbox, count);
    stage.shell(sandbox, "sleep 30 >/dev/null 2>&1 <&- & sleep 0.1; kill %1; wait; echo $?");
}

fn terminals(stage: &mut Stage, sandbox: &str) {
    let terminal = json!({"tty": {"rows": 17, "columns": 71}});
    for script in
        ["stty size", "test -t 0 && test -t 1 && test -t 2 && echo all", "echo $TERM", "tty", "exit 6"]
    {
        stage.exec(sandbox, &["sh", "-c", script], terminal.clone());
    }
    stage.exec(
        sandbox,
        &["sh", "-c", "read x; echo got $x"],
        json!({"tty": {"rows": 5, "columns": 5}, "stdin": "typed\n"}),
    );
}
