//! The OpenAPI document against the daemon: Schemathesis generates valid and invalid requests from it, and checks every
//! answer against it.

use std::process::Command;

use coracle_tests::http::Request;
use coracle_tests::{Daemon, Home, count, peers, requires};
use serde_json::json;

const CHECKS: &str = "not_a_server_error,status_code_conformance,content_type_conformance,\
                      response_headers_conformance,response_schema_conformance";

/// Has Schemathesis try everything with a token; `known` are values for parameters it could not make up.
fn attempt(daemon: &Daemon, token: &str, each: usize, phases: &str, known: &str, left_out: &str) -> usize {
    let schemathesis = peers::schemathesis().expect("the test requires it");
    let settings = tempfile::tempdir().expect("a directory");
    let file = settings.path().join("schemathesis.toml");
    std::fs::write(&file, known).expect("writes");
    let output = Command::new(schemathesis)
        .arg("--config-file")
        .arg(&file)
        .args(["run", &format!("http://{}/openapi.json", daemon.address())])
        .args(["--header", &format!("Authorization: Bearer {token}"), "--checks", CHECKS])
        // Two threads that parse Python at once crash CPython before 3.11.8 (its issue 106905).
        .args(["--phases", phases, "--max-examples", &each.to_string(), "--workers", "1"])
        .args(["--request-timeout", "60", "--suppress-health-check", "all", "--continue-on-failure"])
        .args(["--no-color", "--exclude-path-regex", left_out])
        .current_dir(settings.path())
        .output()
        .expect("it starts");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{said}\n{}", daemon.said());
    let cases =
        said.lines().find_map(|line| line.trim().strip_suffix(" passed")?.split(' ').next()?.parse().ok());
    cases.unwrap_or_else(|| panic!("no number of cases: {said}"))
}

#[test]
fn whatever_is_sent_the_answer_is_what_the_description_says() {
    requires!(schemathesis);
    let home = Home::new();
    let daemon = Daemon::start(&home);
    let token = &home.token("acme", &[]);
    let each = count(2, 40);
    let opened = Request::post("/v1/sandboxes", &json!({"ttl": "1h"})).token(token).send(&daemon.tcp());
    let sandbox = opened.expect(200).json()["sandbox_id"].as_str().expect("an id").to_owned();
    let exec = json!({"cmd": ["echo", "hello"], "exec_id": "known"});
    Request::post(&format!("/v1/sandboxes/{sandbox}/execs"), &exec)
        .token(token)
        .send(&daemon.tcp())
        .expect(200);

    let anything = attempt(&daemon, token, each, "coverage,fuzzing", "", "^$");
    // With a sandbox that is there, and without what would take it away.
    let known = format!("[parameters]\nsandbox_id = \"{sandbox}\"\nexec_id = \"known\"\n");
    let phases = ["fuzzing", "coverage,fuzzing"][count(0, 1)];
    let in_a_sandbox =
        attempt(&daemon, token, each, phases, &known, "(sandbox_id}|pause|transfer|release|run|sandboxes)$");

    eprintln!("{} requests were made up", anything + in_a_sandbox);
    assert!(anything + in_a_sandbox >= count(1000, 5000), "{anything} and {in_a_sandbox} cases");
    let alive =
        Request::get(&format!("/v1/sandboxes/{sandbox}")).token(token).send(&daemon.tcp()).expect(200);
    assert_eq!(alive.json()["state"], "ready");
}
