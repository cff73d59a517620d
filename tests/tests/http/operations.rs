//! Every operation through its route, and what is answered when it cannot be done.

use coracle_tests::http::Request;
use coracle_tests::{Daemon, Home, requires};
use serde_json::{Value, json};

#[test]
fn a_sandbox_is_opened_used_and_closed() {
    requires!(native);
    let home = Home::new();
    let daemon = Daemon::start(&home);
    let place = daemon.unix();

    let opened =
        Request::post("/v1/sandboxes", &json!({"labels": {"for": "test"}})).send(&place).expect(200).json();
    let sandbox = format!("/v1/sandboxes/{}", opened["sandbox_id"].as_str().expect("an id"));
    let ran = Request::post(&format!("{sandbox}/execs"), &json!({"cmd": ["sh", "-c", "echo out; exit 3"]}));
    let ran = ran.send(&place).expect(200).json();
    let shown = Request::get(&sandbox).send(&place).expect(200).json();
    let listed = Request::get("/v1/sandboxes").send(&place).expect(200).json();
    Request::delete(&sandbox).send(&place).expect(200);
    let after = Request::get(&sandbox).send(&place).expect(200).json();

    assert_eq!((&ran["exit_code"], &ran["stdout"]), (&json!(3), &json!("out\n")));
    assert_eq!((&shown["state"], &shown["labels"]["for"]), (&json!("ready"), &json!("test")));
    assert_eq!(listed["sandboxes"][0]["sandbox_id"], opened["sandbox_id"]);
    assert_eq!(after["state"], "destroyed");
    daemon.end().expect_code(0);
    home.expect_nothing_left();
}

#[test]
fn one_shots_need_no_sandbox() {
    requires!(native);
    let home = Home::new();
    let daemon = Daemon::start(&home);

    let ran =
        Request::post("/v1/run", &json!({"code": "print(6 * 7)"})).send(&daemon.unix()).expect(200).json();

    assert_eq!((&ran["ok"], &ran["stdout"]), (&json!(true), &json!("42\n")));
}

#[test]
fn files_of_any_size_and_any_bytes_go_in_and_out() {
    requires!(native);
    let home = Home::new();
    let daemon = Daemon::start(&home);
    let files = format!("/v1/sandboxes/{}/files", home.open());
    let bytes: Vec<u8> =
        (0..5_000_000u32).map(|number| (number.wrapping_mul(2_654_435_761) >> 24) as u8).collect();

    let put = |query: &str, body: Vec<u8>| {
        Request::new("PUT", &format!("{files}?{query}")).body(body).send(&daemon.unix())
    };
    put("path=a%20b.bin&mode=0600", bytes.clone()).expect(200);
    let back = Request::get(&format!("{files}?path=a%20b.bin")).send(&daemon.unix()).expect(200);
    let again = put("path=a%20b.bin&overwrite=false", b"other".to_vec());
    let missing = Request::get(&format!("{files}?path=nothing")).send(&daemon.unix());
    put("path=empty", Vec::new()).expect(200);

    assert!(back.body == bytes);
    assert_eq!((again.status, again.kind().as_str()), (409, "conflict"));
    assert_eq!((missing.status, missing.kind().as_str()), (404, "not_found"));
}

#[test]
fn a_body_that_breaks_off_leaves_the_old_file() {
    requires!(native);
    let home = Home::new();
    let daemon = Daemon::start(&home);
    let sandbox = home.open();
    home.call(["fs", "write", &sandbox, "kept"]).stdin("old").succeed();

    let mut stream = daemon.unix().connect().expect("connects");
    let head = format!(
        "PUT /v1/sandboxes/{sandbox}/files?path=kept HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\nnew"
    );
    std::io::Write::write_all(&mut stream, head.as_bytes()).expect("writes");
    drop(stream);
    daemon.end().expect_code(0);

    assert_eq!(home.call(["fs", "read", &sandbox, "kept"]).succeed().text(), "old");
}

#[test]
fn what_is_wrong_is_said_in_the_words_of_every_door() {
    requires!(native);
    let home = Home::new();
    let daemon = Daemon::start(&home);
    let place = daemon.unix();
    let sandbox = home.open();
    let execs = format!("/v1/sandboxes/{sandbox}/execs");
    let large = Request::post("/v1/run", &json!({"code": "x".repeat(17 << 20)}));

    let cases = [
        (Request::get("/v1/sandboxes/sbx_unknown"), 404, "not_found"),
        (Request::get("/v1/sandboxes?every=true"), 400, "invalid"),
        (Request::get("/v1/sandboxes?all=true&all=false"), 400, "invalid"),
        (Request::get("/v1/sandboxes/%ff"), 400, "invalid"),
        (Request::get("/v2/sandboxes"), 404, "not_found"),
        (Request::new("PATCH", "/v1/sandboxes"), 405, "invalid"),
        (Request::post(&execs, &json!({"cmd": []})), 400, "invalid"),
        (Request::post(&execs, &json!({"cmd": ["x"], "sandbox_id": "sbx_other"})), 400, "invalid"),
        (Request::post(&execs, &json!([1])), 400, "invalid"),
        (Request::post(&execs, &json!({"cmd": ["no-such-program"]})), 422, "execution_failed"),
        (
            Request::new("POST", &execs)
                .header("Content-Type", "application/json")
                .body("{\"cmd\": [\"a\"], \"cmd\": [\"b\"]}"),
            400,
            "invalid",
        ),
        (Request::new("POST", &execs).header("Content-Type", "text/plain").body("{}"), 415, "invalid"),
        (
            Request::post(&execs, &json!({"cmd": ["true"]})).header("Coracle-Run", "run_other"),
            403,
            "not_owner",
        ),
        (Request::post(&execs, &json!({"cmd": ["true"]})).header("Coracle-Epoch", "9"), 409, "stale_epoch"),
        (Request::post(&execs, &json!({"cmd": ["true"]})).header("Coracle-Epoch", "x"), 400, "invalid"),
        (large, 413, "invalid"),
    ];
    for (request, status, kind) in cases {
        let answer = request.send(&place);
        assert_eq!((answer.status, answer.kind().as_str()), (status, kind), "{request:?}: {answer}");
    }
}

#[test]
fn a_body_without_the_type_of_json_is_told_what_it_lacks() {
    requires!(native);
    let home = Home::new();
    let daemon = Daemon::start(&home);
    let message = |request: Request| {
        let error = request.body("{}").send(&daemon.unix()).expect(415).json();
        error["error"]["message"].as_str().expect("a message").to_owned()
    };

    let missing = message(Request::new("POST", "/v1/run"));
    let form = Request::new("POST", "/v1/run").header("Content-Type", "application/x-www-form-urlencoded");

    assert_eq!(missing, "the request has no `Content-Type: application/json`");
    assert_eq!(
        message(form),
        "the `Content-Type` of the request is `application/x-www-form-urlencoded` and not `application/json`"
    );
}

#[test]
fn the_description_is_served_and_names_every_operation() {
    requires!(native);
    let home = Home::new();
    let daemon = Daemon::start(&home);

    let described = Request::get("/openapi.json").send(&daemon.unix()).expect(200).json();

    let named = |operation: &&str| {
        let paths = described["paths"].as_object().expect("paths");
        let all = paths.values().flat_map(|path| path.as_object().expect("methods").values());
        all.filter(|one| one["operationId"] == **operation).count() == 1
    };
    assert_eq!(described["openapi"], "3.1.0");
    let missing: Vec<_> =
        coracle_engine::Catalogue::own().names().into_iter().filter(|name| !named(name)).collect();
    assert_eq!(missing, Vec::<&str>::new());
}

#[test]
fn only_one_daemon_serves_a_home_and_its_socket_is_its_owners() {
    requires!(native);
    let home = Home::new();
    let daemon = Daemon::start(&home);

    let second = home.call(["serve", "--json"]).run().error_kind();
    let mode = std::fs::metadata(home.path().join("coracle.sock")).expect("a socket").permissions();

    assert_eq!(second, "conflict");
    assert_eq!(std::os::unix::fs::PermissionsExt::mode(&mode) & 0o777, 0o600);
    daemon.kill();
    // The socket of a dead daemon is free.
    Daemon::start(&home).end().expect_code(0);
}

#[test]
fn addresses_others_can_reach_need_behind_tls() {
    requires!(native);
    let home = Home::new();

    let open: Value = home.call(["serve", "--json", "--listen", "0.0.0.0:0"]).run().error();

    assert_eq!(open["kind"], "invalid");
    assert!(open["hint"].as_str().is_some_and(|hint| hint.contains("TLS")), "{open}");
}
