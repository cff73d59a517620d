//! Idempotency keys: a repeated request is done once and answered the same, even if the daemon is killed in between.

use coracle_tests::http::{Answer, Request};
use coracle_tests::{Daemon, Home, SOON, eventually, requires};
use serde_json::{Value, json};

fn keyed(path: &str, body: &Value, key: &str) -> Request {
    Request::post(path, body).header("Idempotency-Key", key)
}

fn replayed(answer: &Answer) -> bool {
    answer.header("idempotent-replayed") == Some("true")
}

#[test]
fn the_same_again_is_answered_the_same_and_done_once() {
    requires!(native);
    let home = Home::new();
    let daemon = Daemon::start(&home);
    let (mine, theirs) = (home.token("mine", &[]), home.token("theirs", &[]));
    let open =
        |token: &str, body: &Value| keyed("/v1/sandboxes", body, "k1").token(token).send(&daemon.tcp());

    let (first, again) = (open(&mine, &json!({})).expect(200), open(&mine, &json!({})).expect(200));
    let other = open(&mine, &json!({"labels": {"a": "b"}}));
    let elsewhere = open(&theirs, &json!({})).expect(200);

    assert_eq!((first.body.clone(), replayed(&first), replayed(&again)), (again.body.clone(), false, true));
    assert_eq!((other.status, other.kind().as_str()), (422, "conflict"));
    assert_ne!(elsewhere.json()["sandbox_id"], first.json()["sandbox_id"]);
    assert_eq!(home.live().len(), 2);
    let id = first.json()["sandbox_id"].as_str().expect("an id").to_owned();
    // A request refused before it changed anything succeeds under the same key once its cause is mended.
    let move_it = || keyed(&format!("/v1/sandboxes/{id}/fs/move"), &json!({"from": "a", "to": "b"}), "k2");
    let missing = move_it().token(&mine).send(&daemon.tcp()).expect(404);
    let write = json!({"path": "a", "contents": "x"});
    Request::post(&format!("/v1/sandboxes/{id}/fs/write"), &write)
        .token(&mine)
        .send(&daemon.tcp())
        .expect(200);
    let (moved, again) =
        (move_it().token(&mine).send(&daemon.tcp()), move_it().token(&mine).send(&daemon.tcp()));
    assert_eq!((moved.status, replayed(&missing), replayed(&moved)), (200, false, false));
    assert_eq!((again.status, replayed(&again)), (200, true), "it was not moved twice");
    // And after the daemon is gone and back.
    daemon.kill();
    let daemon = Daemon::start(&home);
    let later = keyed("/v1/sandboxes", &json!({}), "k1").token(&mine).send(&daemon.tcp()).expect(200);
    assert_eq!((later.body.clone(), replayed(&later)), (first.body, true));
}

#[test]
fn a_refusal_that_did_nothing_is_not_kept_and_a_failure_is() {
    requires!(native);
    let home = Home::new();
    let daemon = Daemon::start(&home);
    let sandbox = home.open();
    let execs = format!("/v1/sandboxes/{sandbox}/execs");
    let twice = |path: &str, body: &Value, key: &str| {
        let request = keyed(path, body, key);
        [request.send(&daemon.unix()), request.send(&daemon.unix())]
    };

    let refused = [
        twice("/v1/sandboxes/sbx_none/pause", &json!({}), "not-found"),
        twice(&execs, &json!({"cmd": []}), "invalid"),
        twice(&execs, &json!({"cmd": ["true"], "stdin": "a", "stdin_b64": "YQ=="}), "invalid-2"),
    ];
    let failed = twice(&execs, &json!({"cmd": ["/no/such/program"]}), "failed");

    for [first, again] in &refused {
        assert!((400..500).contains(&first.status), "{first:?}");
        assert_eq!((first.status, replayed(again)), (again.status, false), "{again:?}");
    }
    assert_eq!((failed[0].kind().as_str(), replayed(&failed[1])), ("execution_failed", true), "{failed:?}");
    // Another request may use the key of one that was not carried out.
    keyed(&execs, &json!({"cmd": ["true"]}), "invalid").send(&daemon.unix()).expect(200);
}

#[test]
fn keys_that_are_none_are_refused() {
    requires!(native);
    let home = Home::new();
    let daemon = Daemon::start(&home);

    for key in ["", "with space", &"k".repeat(256)] {
        let answer = keyed("/v1/run", &json!({"code": "1"}), key).send(&daemon.unix());
        assert_eq!((answer.status, answer.kind().as_str()), (400, "invalid"), "{key}");
    }
    let two = keyed("/v1/run", &json!({"code": "1"}), "a").header("Idempotency-Key", "b");
    assert_eq!(two.send(&daemon.unix()).status, 400);
}

#[test]
fn an_exec_cut_off_by_the_end_of_the_daemon_is_found_again_and_not_run_twice() {
    requires!(native);
    let home = Home::new();
    let daemon = Daemon::start(&home);
    let sandbox = home.open();
    let script = "echo once >> count; until [ -e go ]; do sleep 0.05; done; echo done";
    let request =
        keyed(&format!("/v1/sandboxes/{sandbox}/execs"), &json!({"cmd": ["sh", "-c", script]}), "build-1");
    let place = daemon.unix();
    let count = || {
        home.exec(&sandbox, ["sh", "-c", "cat count 2>/dev/null | wc -l"]).succeed().text().trim().to_owned()
    };

    let asking = std::thread::spawn({
        let request = request.clone();
        move || request.try_send(&place).is_some()
    });
    eventually(SOON, || count() == "1").expect("it has begun");
    let twice = request.send(&daemon.unix());
    daemon.kill();
    assert!(!asking.join().expect("no panic"), "there was no answer");
    let daemon = Daemon::start(&home);
    home.exec(&sandbox, ["touch", "go"]).succeed();
    let found = request.send(&daemon.unix()).expect(200);
    let again = request.send(&daemon.unix()).expect(200);

    assert_eq!((twice.status, twice.kind().as_str()), (409, "conflict"));
    assert_eq!(twice.header("retry-after"), Some("1"));
    assert_eq!((&found.json()["stdout"], &found.json()["exit_code"]), (&json!("done\n"), &json!(0)));
    assert_eq!((again.body.clone(), replayed(&again)), (found.body, true));
    assert_eq!(count(), "1");
}

#[test]
fn a_repeat_of_what_cannot_be_found_again_says_the_outcome_is_unknown() {
    requires!(native);
    let home = Home::new();
    let daemon = Daemon::start(&home);
    let request = keyed("/v1/run", &json!({"cmd": ["sleep", "77.25"]}), "run-1");
    let place = daemon.unix();
    let asking = std::thread::spawn({
        let request = request.clone();
        move || request.try_send(&place).is_some()
    });
    eventually(SOON, || !home.census().named("77.25").is_empty()).expect("it runs");

    daemon.kill();
    asking.join().expect("no panic");
    eventually(SOON, || home.census().named("77.25").is_empty()).expect("it ends with the daemon");
    let daemon = Daemon::start(&home);
    let answer = request.send(&daemon.unix());

    assert_eq!((answer.status, answer.kind().as_str()), (409, "conflict"));
    assert_eq!(answer.json()["error"]["details"]["outcome"], "unknown");
    assert_eq!(home.census().named("77.25").len(), 0, "it was not run again");
}
