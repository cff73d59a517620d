//! Opening, finding again, one-shots, closing.

use serde_json::json;

use crate::parity::stage::Stage;

pub fn play(stage: &mut Stage) {
    let sandbox = stage.open(&["--key", "mine", "--label", "purpose=parity", "--env", "FROM_OPEN=yes"]);
    let again = stage.open(&["--key", "mine", "--label", "purpose=parity", "--env", "FROM_OPEN=yes"]);
    assert_eq!(sandbox, again, "one key, one sandbox");
    stage.make(&["open", "--key", "mine", "--env", "FROM_OPEN=no", "--json"]);
    stage.shell(&sandbox, "echo $FROM_OPEN $GREETING");
    stage.call(&["fs", "write", &sandbox, "kept"]);
    stage.call(&["close", &sandbox, "--json"]);
    for words in [["show", &sandbox, "--json"], ["close", &sandbox, "--json"], ["claim", &sandbox, "--json"]]
    {
        stage.call(&words);
    }
    stage.shell(&sandbox, "true");
    let next = stage.open(&["--key", "mine"]);
    stage.call(&["fs", "stat", &next, "kept", "--json"]);
    stage.call(&["close", &next, "--json"]);
    one_shots(stage);
    let placed = stage.open(&["--workdir", "/srv/deep"]);
    stage.shell(&placed, "pwd; ls -ld /srv/deep /workspace | cut -c1-10");
    stage.call(&["close", &placed, "--json"]);
}

fn one_shots(stage: &mut Stage) {
    for script in ["echo hello", "exit 7", "kill -TERM $$", "pwd; id -u", "cat; echo end"] {
        stage.make(&["run", "--json", "--", "sh", "-c", script]);
    }
    stage.make(&["run", "--", "sh", "-c", "echo plain; echo aside >&2; exit 4"]);
    stage.make(&["run", "--json", "--timeout", "300ms", "--", "sleep", "1000"]);
    stage.make(&["run", "--json", "--", "no-such-program"]);
    stage.make(&["run", "--json", "--user", "worker", "--", "id"]);
    stage.make(&["run", "--json", "--cwd", "/tmp", "--env", "A=b", "--", "sh", "-c", "pwd; echo $A"]);
    let inputs = [
        json!({"cmd": ["cat", "in.txt"], "files": {"in.txt": "from outside\n"}}),
        json!({"cmd": ["cat"], "stdin": "by stdin"}),
        json!({"cmd": ["wc", "-c"], "stdin_b64": "AAECAw=="}),
        json!({"cmd": ["sh", "-c", "echo $S"], "secrets": {"S": "hidden"}}),
        json!({"cmd": ["false"]}),
    ];
    for input in inputs {
        let input = stage.spec(input);
        stage.operation("sandbox_run", &input);
    }
}
