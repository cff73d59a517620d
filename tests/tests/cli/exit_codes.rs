//! Exit codes: the command's own, and a number for every other end.

use coracle_tests::{Home, requires};

#[test]
fn every_end_has_its_exit_code() {
    requires!(native);
    let home = Home::new();
    let sandbox = home.open();
    home.exec(&sandbox, ["sh", "-c", "echo text > plain"]).succeed();
    let table: &[(&[&str], i32)] = &[
        (&["true"], 0),
        (&["sh", "-c", "exit 7"], 7),
        (&["sh", "-c", "exit 255"], 255),
        (&["sh", "-c", "kill -TERM $$"], 128 + 15),
        (&["sh", "-c", "kill -KILL $$"], 128 + 9),
        (&["sh", "-c", "kill -USR1 $$"], 128 + 10),
        (&["no-such-program"], 127),
        (&["/no/such/program"], 127),
        (&["/workspace/plain"], 126),
        (&["/workspace"], 126),
    ];

    for (command, code) in table {
        let finished = home.exec(&sandbox, command.iter().copied()).run();
        assert_eq!(finished.code(), Some(*code), "{finished}");
    }
}

#[test]
fn one_shots_have_the_same_exit_codes() {
    requires!(native);
    let home = Home::new();

    home.call(["run", "--", "sh", "-c", "exit 7"]).run().expect_code(7);
    home.call(["run", "--", "no-such-program"]).run().expect_code(127);
    home.call(["run", "--timeout", "200ms", "--grace", "0", "--", "sleep", "60"]).run().expect_code(124);
}

#[test]
fn usage_is_125_and_leaves_stdout_empty() {
    let home = Home::new();

    for arguments in [
        &["no-such-verb"][..],
        &["run", "--no-such-flag", "--", "true"],
        &["exec"],
        &["run", "--timeout", "soon", "--", "true"],
    ] {
        let finished = home.call(arguments).run().expect_code(125);
        assert!(finished.stdout.is_empty() && !finished.stderr.is_empty(), "{finished}");
    }
}

#[test]
fn outcomes_are_values_in_json() {
    requires!(native);
    let home = Home::new();
    let sandbox = home.open();
    let outcome = |flags: &[&str], command: &[&str]| {
        let arguments = ["exec", &sandbox, "--json"].into_iter().chain(flags.iter().copied()).chain(["--"]);
        home.call(arguments.chain(command.iter().copied())).run().json()
    };

    let exited = outcome(&[], &["sh", "-c", "echo out; echo err >&2; exit 3"]);
    assert_eq!(exited["outcome"], serde_json::json!({"kind": "exited", "code": 3}));
    assert_eq!(exited["exit_code"], 3);
    assert_eq!((&exited["stdout"], &exited["stderr"]), (&"out\n".into(), &"err\n".into()));
    assert_eq!(exited["truncated"], false);

    let signalled = outcome(&[], &["sh", "-c", "kill -KILL $$"]);
    assert_eq!(signalled["outcome"], serde_json::json!({"kind": "signalled", "signal": 9}));
    assert!(signalled["exit_code"].is_null());

    let timed_out = outcome(&["--timeout", "200ms", "--grace", "0"], &["sleep", "60"]);
    assert_eq!(timed_out["outcome"]["kind"], "timed_out");
    assert!(timed_out["exit_code"].is_null());
}
