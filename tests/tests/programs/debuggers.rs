//! Debuggers, which `privileges: debug` is for. What it must not open is in the suite of attacks.

use coracle_tests::http::Request;
use coracle_tests::{Daemon, Home, requires};
use serde_json::json;

const LEAKING: &str = include_str!("payloads/leaking.c");

fn home_with_program(privileges: &str) -> (Home, String) {
    let home = Home::new();
    let sandbox = home.open_with(&["--privileges", privileges]);
    home.call(["fs", "write", &sandbox, "leaking.c"]).stdin(LEAKING).succeed();
    home.exec(&sandbox, ["gcc", "-g", "-O0", "-o", "leaking", "leaking.c"]).succeed();
    home.exec(&sandbox, ["gcc", "-g", "-fsanitize=leak", "-o", "checked", "leaking.c"]).succeed();
    (home, sandbox)
}

#[test]
fn strace_gdb_and_a_leak_sanitizer_run() {
    requires!(programs);
    let (home, sandbox) = home_with_program("debug");

    let traced =
        home.exec(&sandbox, ["strace", "-f", "-e", "trace=execve", "sh", "-c", "./leaking; true"]).succeed();
    assert!(traced.stderr.contains("execve(\"./leaking\""), "{traced}");

    let stops =
        ["-ex", "break answer", "-ex", "run", "-ex", "print n", "-ex", "backtrace", "-ex", "continue"];
    let debugged = home.exec(&sandbox, [&["gdb", "-batch"], &stops[..], &["./leaking"]].concat()).succeed();
    for word in ["$1 = 6", "in main ()", "42", "exited normally"] {
        assert!(debugged.text().contains(word), "{word}: {debugged}");
    }
    assert!(!debugged.stderr.contains("warning: Error disabling address space randomization"), "{debugged}");

    let checked = home.exec(&sandbox, ["./checked"]).run();
    assert!(checked.stderr.contains("LeakSanitizer: 32 byte(s) leaked"), "{checked}");

    let attached =
        home.exec(&sandbox, ["sh", "-c", "sleep 60 & gdb -batch -p $! -ex backtrace; kill $!"]).succeed();
    assert!(attached.text().contains("nanosleep"), "{attached}");
}

#[test]
fn nothing_is_traced_unless_that_was_asked_for() {
    requires!(programs);
    for privileges in ["minimal", "install"] {
        let (home, sandbox) = home_with_program(privileges);

        let traced = home.exec(&sandbox, ["strace", "true"]).run();

        assert!(traced.code() != Some(0) && traced.stderr.contains("Operation not permitted"), "{traced}");
    }
}

#[test]
fn an_ordinary_user_debugs_too() {
    requires!(programs);
    let home = Home::ordinary();

    let traced = home
        .call(["run", "--privileges", "debug", "--", "strace", "-f", "-o", "/dev/stdout", "sh", "-c", "true"])
        .succeed();

    assert!(traced.text().contains("execve("), "{traced}");
}

#[test]
fn debugging_is_recorded_and_kept_below_a_ceiling() {
    requires!(native);
    let home = Home::new();
    let sandbox = home.open_with(&["--privileges", "debug"]);
    let record = home.call(["show", &sandbox, "--json"]).succeed().json();
    assert!(record.to_string().contains("commands may trace each other"), "{record}");

    let daemon = Daemon::start(&home);
    for (ceiling, status) in [("minimal", 403), ("install", 403), ("debug", 200)] {
        let token = home.token("tenant", &["--max-privileges", ceiling]);
        let asked = Request::post("/v1/sandboxes", &json!({"privileges": "debug"})).token(&token);

        let answer = asked.send(&daemon.tcp());

        assert_eq!(answer.status, status, "{ceiling}: {}", answer.json());
    }
}
