//! A panic in one request: its client gets a 500, and no other client notices.

use coracle_tests::http::Request;
use coracle_tests::{Daemon, Home, requires};
use serde_json::json;

#[test]
fn a_panic_in_one_request_leaves_all_others_and_all_sandboxes_alone() {
    requires!(native);
    let home = Home::new();
    let sandbox = home.open();
    let script = "while [ ! -e go ]; do sleep 0.05; done; echo done";
    home.call(["exec", &sandbox, "--detach", "--id", "waits", "--", "sh", "-c", script]).succeed();
    let serve =
        home.call(["serve", "--listen", "127.0.0.1:0"]).env("CORACLE_CRASH_AT", "panic:exec.admit.after");
    let daemon = Daemon::from(serve, &home);
    let stream = format!("/v1/sandboxes/{sandbox}/execs/waits/stream");
    let mut followed = Request::get(&stream).open(&daemon.unix()).expect("the daemon answers");
    let execs = format!("/v1/sandboxes/{sandbox}/execs");

    for _ in 0..3 {
        let broken = Request::post(&execs, &json!({"cmd": ["true"]})).send(&daemon.unix()).expect(500);

        assert_eq!(broken.kind(), "internal");
        assert!(
            !broken.to_string().contains("told to panic"),
            "what a panic says is not for clients: {broken}"
        );
        assert!(broken.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("coracle-request")));
    }

    Request::get("/readyz").send(&daemon.unix()).expect(200);
    let write = format!("/v1/sandboxes/{sandbox}/fs/write");
    Request::post(&write, &json!({"path": "go", "contents": ""})).send(&daemon.unix()).expect(200);
    let first = followed.event().expect("the stream goes on");
    assert_eq!(first.data["text"], "done\n");
    let last = followed.event().expect("to its end");
    assert_eq!((last.name.as_str(), &last.data["exit_code"]), ("end", &json!(0)));
    // Nothing was held by what panicked.
    home.exec(&sandbox, ["true"]).succeed();
    daemon.end();
}

#[test]
fn a_panic_of_the_command_line_is_a_failure_of_coracles() {
    requires!(native);
    let home = Home::new();
    let sandbox = home.open();

    let broken = home.exec(&sandbox, ["true"]).env("CORACLE_CRASH_AT", "panic:exec.admit.after").run();

    assert_eq!(broken.code(), Some(125), "{broken}");
    assert!(broken.stderr.contains("told to panic"), "{broken}");
    home.exec(&sandbox, ["true"]).succeed();
}
