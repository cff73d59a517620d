//! Clients that say they send no more, and clients that leave.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use coracle_tests::http::{DaemonAddress, Opened, Request};
use coracle_tests::{Daemon, Home, eventually, requires};
use serde_json::json;

/// The places there are before one sandbox.
const MANY: usize = 64;

/// Sends a request, says that nothing more comes, and returns all that is answered.
fn half_closed(address: &DaemonAddress, request: &str) -> String {
    let mut answer = String::new();
    match address {
        DaemonAddress::Unix(path) => {
            let mut stream = UnixStream::connect(path).expect("connects");
            stream.write_all(request.as_bytes()).expect("writes");
            stream.shutdown(Shutdown::Write).expect("it is connected");
            stream.read_to_string(&mut answer).expect("an answer");
        }
        DaemonAddress::Tcp(address) => {
            let mut stream = std::net::TcpStream::connect(address).expect("connects");
            stream.write_all(request.as_bytes()).expect("writes");
            stream.shutdown(Shutdown::Write).expect("it is connected");
            stream.read_to_string(&mut answer).expect("an answer");
        }
    }
    answer
}

#[test]
fn a_client_that_closes_its_side_is_answered() {
    requires!(native);
    let home = Home::new();
    let daemon = Daemon::start(&home);
    let token = home.token("acme", &[]);
    let body = r#"{"cmd": ["sh", "-c", "sleep 1; echo late"]}"#;

    for address in [daemon.unix(), daemon.tcp()] {
        let request = format!(
            "POST /v1/run HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        let answer = half_closed(&address, &request);
        assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("late"), "{address:?}: {answer}");
    }
}

#[test]
fn a_client_that_closes_its_side_gets_a_stream_to_the_end() {
    requires!(native);
    let home = Home::new();
    let daemon = Daemon::start(&home);
    let token = home.token("acme", &[]);
    let opened = Request::post("/v1/sandboxes", &json!({})).token(&token).send(&daemon.tcp()).expect(200);
    let sandbox = opened.json()["sandbox_id"].as_str().expect("an id").to_owned();

    for (exec, address) in [("one", daemon.unix()), ("two", daemon.tcp())] {
        let input = json!({"cmd": ["sh", "-c", "sleep 2; echo late"], "stream": true, "exec_id": exec});
        Request::post(&format!("/v1/sandboxes/{sandbox}/execs"), &input)
            .token(&token)
            .send(&address)
            .expect(200);
        let request = format!(
            "GET /v1/sandboxes/{sandbox}/execs/{exec}/stream HTTP/1.1\r\nHost: localhost\r\n\
             Authorization: Bearer {token}\r\nConnection: close\r\n\r\n"
        );
        let answer = half_closed(&address, &request);
        assert!(answer.contains("late") && answer.contains("event: end"), "{address:?}: {answer}");
    }
}

/// A sandbox has 64 places for readers: a client that leaves frees its place at once, before its silence would end it.
#[test]
fn a_place_is_free_when_its_client_has_left() {
    requires!(native);
    let home = Home::new();
    let daemon = Daemon::start(&home);
    let token = home.token("acme", &[]);
    let opened = Request::post("/v1/sandboxes", &json!({})).token(&token).send(&daemon.tcp()).expect(200);
    let sandbox = opened.json()["sandbox_id"].as_str().expect("an id").to_owned();
    let input = json!({"cmd": ["sleep", "600"], "stream": true, "exec_id": "silent"});
    Request::post(&format!("/v1/sandboxes/{sandbox}/execs"), &input)
        .token(&token)
        .send(&daemon.tcp())
        .expect(200);
    let stream = Request::get(&format!("/v1/sandboxes/{sandbox}/execs/silent/stream")).token(&token);
    let events = Request::get("/v1/events").token(&token).header("Accept", "text/event-stream");

    for address in [daemon.unix(), daemon.tcp()] {
        for request in [&stream, &events] {
            let all = filled(request, &address);
            assert_eq!(request.open(&address).expect("it is answered").status, 429, "there is no more room");
            drop(all);
            drop(filled(request, &address));
        }
    }
}

/// Takes every place there is, waiting for those that are just being left.
#[track_caller]
fn filled(request: &Request, address: &DaemonAddress) -> Vec<Opened> {
    let mut taken = Vec::new();
    let all = eventually(Duration::from_secs(30), || {
        taken.extend(request.open(address).ok().filter(|one| one.status == 200));
        taken.len() == MANY
    });
    assert!(all.is_some(), "{} places at {address:?}: {request:?}", taken.len());
    taken
}
