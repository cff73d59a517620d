//! The audit log: a line for each request, with who and what, and without anything secret.

use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use coracle_tests::http::{DaemonAddress, Request};
use coracle_tests::{Daemon, Home, count, eventually, requires};
use serde_json::{Value, json};

fn lines(home: &Home) -> Vec<Value> {
    let text = std::fs::read_to_string(home.path().join("audit.jsonl")).expect("a log");
    text.lines().map(|line| serde_json::from_str(line).expect("a line is one document")).collect()
}

#[test]
fn who_did_what_and_what_came_of_it_is_noted_and_no_secret() {
    requires!(native);
    let home = Home::new();
    let daemon = Daemon::start(&home);
    let text = home.token("acme", &["--allow", "sandbox_*"]);
    let id = format!("tok_{}", text.split('_').nth(1).expect("it has parts"));

    let opened = Request::post("/v1/sandboxes", &json!({"env": {"V": "env-hunter2"}}))
        .token(&text)
        .send(&daemon.tcp());
    let sandbox = opened.expect(200).json()["sandbox_id"].clone();
    let execs = format!("/v1/sandboxes/{}/execs", sandbox.as_str().expect("an id"));
    let body = json!({"cmd": ["echo", "argument-hunter2"], "secrets": {"K": "secret-hunter2"}});
    let ran = Request::post(&execs, &body).token(&text).send(&daemon.tcp()).expect(200);
    let keyed = Request::post("/v1/sandboxes", &json!({})).header("Idempotency-Key", "k").token(&text);
    let second = keyed.send(&daemon.tcp()).expect(200).json()["sandbox_id"].clone();
    keyed.send(&daemon.tcp()).expect(200);
    let missing = Request::post("/v1/sandboxes/sbx_x/pause", &json!({})).header("Idempotency-Key", "p");
    let missing = missing.token(&text);
    (0..2).for_each(|_| drop(missing.send(&daemon.tcp()).expect(404)));
    Request::get("/v1/images").token(&text).send(&daemon.tcp()).expect(403);
    Request::get("/v1/images").send(&daemon.tcp()).expect(401);
    Request::get("/v1/images").send(&daemon.unix()).expect(200);
    let hidden = second.as_str().expect("an id").replacen('s', "%73", 1);
    Request::get(&format!("/v1/sandboxes/{hidden}")).token(&text).send(&daemon.tcp()).expect(200);
    Request::get("/healthz").send(&daemon.tcp()).expect(200);

    let all = lines(&home);
    let of = |who: &Value, operation: &str| {
        let found = all.iter().find(|line| line["who"] == *who && line["operation"] == operation);
        found.unwrap_or_else(|| panic!("no line of {who} about {operation}: {all:?}")).clone()
    };
    let (who, own) =
        (json!(format!("token:{id}")), json!(format!("uid:{}", rustix::process::geteuid().as_raw())));
    let line = of(&who, "sandbox_exec");
    assert_eq!(
        (&line["tenant"], &line["sandbox"], &line["outcome"]),
        (&json!("acme"), &sandbox, &json!("ok"))
    );
    assert_eq!(
        (&line["door"], &line["status"], &line["from"]),
        (&json!("http"), &json!(200), &json!("127.0.0.1"))
    );
    assert_eq!(Some(line["request"].as_str().expect("a name")), ran.header("coracle-request"));
    assert_eq!(of(&who, "sandbox_open")["sandbox"], sandbox);
    assert_eq!(
        (&of(&who, "image_list")["outcome"], &of(&who, "image_list")["status"]),
        (&json!("denied"), &json!(403))
    );
    assert_eq!(
        (&of(&own, "image_list")["tenant"], &of(&own, "image_list")["status"]),
        (&Value::Null, &json!(200))
    );
    assert!(all.iter().any(|line| line["who"].is_null() && line["status"] == 401), "{all:?}");
    assert_eq!(
        all.iter().filter(|line| line["sandbox"] == second).count(),
        3,
        "under a key, again, and however it is written"
    );
    let paused: Vec<_> = all.iter().filter(|line| line["operation"] == "sandbox_pause").collect();
    assert_eq!([&paused[0]["outcome"], &paused[1]["outcome"]], [&json!("not_found"), &json!("not_found")]);
    let log = format!("{all:?}{}", daemon.said());
    let secret = text.rsplit('_').next().expect("it has parts");
    assert!(!log.contains("hunter2") && !log.contains(secret), "{log}");
    let mode = home.path().join("audit.jsonl").metadata().expect("it is there").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

/// Sends a request and leaves after two milliseconds, whatever came of it by then.
fn abandon(address: &DaemonAddress, request: &Request) {
    let mut stream = address.connect().expect("the daemon listens");
    stream.write_all(&request.bytes(address)).expect("it is read");
    std::thread::sleep(Duration::from_millis(2));
}

#[test]
fn a_client_that_hangs_up_is_in_the_log() {
    requires!(native);
    let home = Home::new();
    let daemon = Daemon::start(&home);
    let rounds = count(6, 50);
    let sandbox = home.open();
    let closed: Vec<String> = (0..rounds).map(|_| home.open()).collect();
    let at = |rest: &str| format!("/v1/sandboxes/{sandbox}{rest}");

    for (number, other) in closed.iter().enumerate() {
        let written = json!({"path": format!("written-{number}"), "contents": "x"});
        let requests = [
            Request::post(&at("/execs"), &json!({"cmd": ["sleep", "0.1"]})),
            Request::post(&at("/execs"), &json!({"cmd": ["true"]})).header("Idempotency-Key", other),
            Request::post(&at("/fs/write"), &written),
            Request::new("PUT", &at(&format!("/files?path=written-by-{number}"))).body("x"),
            // Of this one only the beginning comes.
            Request::new("PUT", &at("/files?path=part")).header("Content-Length", "9999").body("x"),
            Request::get(&at("/execs/none/stream")),
            Request::post("/v1/sandboxes", &json!({})),
            Request::delete(&format!("/v1/sandboxes/{other}")),
        ];
        requests.iter().for_each(|request| abandon(&daemon.unix(), request));
    }

    let expected = [
        ("sandbox_exec", 2 * rounds),
        ("sandbox_fs_write", 3 * rounds),
        ("sandbox_exec_read", rounds),
        ("sandbox_open", rounds),
        ("sandbox_close", rounds),
    ];
    let noted = || {
        let lines = lines(&home);
        let of = |name: &str| lines.iter().filter(|line| line["operation"] == name).count();
        expected.map(|(name, _)| (name, of(name)))
    };
    let all = eventually(Duration::from_secs(60), || noted() == expected);
    assert!(all.is_some(), "noted {:?}, sent {expected:?}\n{:?}", noted(), lines(&home));
    assert!(lines(&home).iter().all(|line| line["who"].is_string()), "{:?}", lines(&home));
    assert!(lines(&home).iter().any(|line| line["outcome"] == "abandoned"), "{:?}", lines(&home));
}

#[test]
fn the_log_goes_on_after_the_daemon_was_killed() {
    requires!(native);
    let home = Home::new();
    for _ in 0..3 {
        let daemon = Daemon::start(&home);
        Request::get("/v1/sandboxes").send(&daemon.unix()).expect(200);
        daemon.kill();
    }

    let listed = lines(&home).iter().filter(|line| line["operation"] == "sandbox_list").count();

    assert_eq!(listed, 3);
}
