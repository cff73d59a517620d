//! Threat AP-06: what one client may take of the daemon is bounded, and the others are served meanwhile.

use std::io::{BufRead, BufReader, Write};
use std::sync::mpsc;
use std::time::Duration;

use coracle_tests::http::{DaemonAddress, Request, Stream};
use coracle_tests::{Daemon, Home, count, eventually, requires};
use serde_json::json;

use crate::streams::memory;

/// Sends these bytes and returns the status of the answer, or nothing where the connection was closed without one.
fn answered(address: &DaemonAddress, bytes: &[u8]) -> Option<u16> {
    let mut stream = address.connect().expect("connects");
    // A server that refuses by the first bytes need not read the rest.
    let _ = stream.write_all(bytes);
    status(stream)
}

fn status(stream: Box<dyn Stream>) -> Option<u16> {
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).ok()?;
    line.strip_prefix("HTTP/1.1 ")?.get(..3)?.parse().ok()
}

fn works(address: &DaemonAddress) {
    let ran = Request::post("/v1/run", &json!({"cmd": ["echo", "hello"]})).send(address).expect(200);
    assert_eq!(ran.json()["stdout"], "hello\n");
}

#[test]
fn idle_connections_cost_little_and_keep_no_client_out() {
    requires!(native);
    let home = Home::new();
    let daemon = Daemon::start_with(&home, &["--listen", "127.0.0.1:0"]);
    works(&daemon.unix());
    let before = memory(daemon.pid());

    let held: Vec<_> = (0..count(800, 6000))
        .filter_map(|number| {
            let mut stream = daemon.tcp().connect().ok()?;
            let part =
                ["", "GET /v1/sandboxes HTTP/1.1\r\n", "POST /v1/run HTTP/1.1\r\nHost: loc"][number % 3];
            stream.write_all(part.as_bytes()).ok()?;
            Some(stream)
        })
        .collect();
    works(&daemon.unix());
    let grown = memory(daemon.pid()).saturating_sub(before);
    drop(held);
    let served = eventually(Duration::from_secs(30), || {
        Request::get("/healthz").try_send(&daemon.tcp()).is_some_and(|answer| answer.status == 200)
    });

    assert!(grown < 200 << 20, "{grown} bytes");
    assert!(served.is_some(), "there is room again when they are gone");
}

#[test]
fn heads_without_measure_are_refused() {
    requires!(native);
    let home = Home::new();
    let daemon = Daemon::start(&home);
    let address = daemon.unix();
    let before = memory(daemon.pid());
    let long = "x".repeat(1 << 20);
    let many = "A: b\r\n".repeat(200);

    for head in [
        format!("GET /v1/sandboxes HTTP/1.1\r\nHost: localhost\r\nLong: {long}\r\n\r\n"),
        format!("GET /v1/sandboxes HTTP/1.1\r\nHost: localhost\r\n{many}\r\n"),
        format!("GET /v1/sandboxes/{long} HTTP/1.1\r\nHost: localhost\r\n\r\n"),
        // Another protocol, and none at all.
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_owned(),
        format!("{long}\r\n\r\n"),
    ] {
        let status = answered(&address, head.as_bytes());
        assert!(status.is_none_or(|status| (400..500).contains(&status)), "{status:?}: {:.40}", head);
    }

    works(&address);
    let grown = memory(daemon.pid()).saturating_sub(before);
    assert!(grown < 32 << 20, "{grown} bytes");
}

/// Sends the beginning of a request and leaves it at that.
fn begin(daemon: &Daemon, token: &str, head: &str) -> Box<dyn Stream> {
    let mut stream = daemon.tcp().connect().expect("connects");
    let whole = format!("{head}Host: localhost\r\nAuthorization: Bearer {token}\r\n\r\n");
    stream.write_all(whole.as_bytes()).expect("it is read");
    stream
}

#[test]
fn a_tenant_that_has_its_share_of_calls_takes_nothing_from_others() {
    requires!(native);
    let home = Home::new();
    let daemon = Daemon::start(&home);
    let (greedy, other) = (home.token("greedy", &[]), home.token("other", &[]));
    let list = |token: &str| Request::get("/v1/sandboxes").token(token).send(&daemon.tcp());

    let waiting: Vec<_> =
        (0..300).map(|_| begin(&daemon, &greedy, "GET /v1/events?wait_ms=20000 HTTP/1.1\r\n")).collect();
    let refused = eventually(Duration::from_secs(15), || list(&greedy).status == 429);
    list(&other).expect(200);
    works(&daemon.unix());
    drop(waiting);

    assert!(refused.is_some(), "it has its share");
    let again = eventually(Duration::from_secs(40), || list(&greedy).status == 200);
    assert!(again.is_some(), "what is done is given back");
}

#[test]
fn a_tenant_that_sends_much_at_once_takes_nothing_from_others() {
    requires!(native);
    let home = Home::new();
    let daemon = Daemon::start(&home);
    let (greedy, other) = (home.token("greedy", &[]), home.token("other", &[]));
    let run = |token: &str| {
        Request::post("/v1/run", &json!({"cmd": ["echo", "hello"]})).token(token).send(&daemon.tcp()).status
    };

    let large = "POST /v1/run HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: 16777216\r\n";
    let (tell, told) = mpsc::channel();
    for _ in 0..9 {
        let (stream, tell) = (begin(&daemon, &greedy, large), tell.clone());
        std::thread::spawn(move || tell.send(status(stream)));
    }
    let first = told.recv_timeout(Duration::from_secs(15));

    assert_eq!(first, Ok(Some(429)), "one of them is more than its share");
    assert_eq!((run(&greedy), run(&other)), (429, 200));
}

/// What two readers could understand differently is refused: one of them may stand before the daemon.
#[test]
fn bodies_whose_end_is_in_doubt_or_far_away_are_refused() {
    requires!(native);
    let home = Home::new();
    let daemon = Daemon::start(&home);
    let address = daemon.unix();
    let before = memory(daemon.pid());
    let run = |headers: &str, body: &str| {
        let head = "POST /v1/run HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n";
        answered(&address, format!("{head}{headers}\r\n\r\n{body}").as_bytes())
    };

    assert_eq!(run("Content-Length: 10737418240", "{}"), Some(413), "it is not waited for");
    let whole = r#"{"code": "echo smuggled > seen"}"#;
    let extension = format!("2;{}\r\n{{}}\r\n0\r\n\r\n", "x".repeat(1 << 20));
    for (headers, body) in [
        ("Content-Length: 32\r\nContent-Length: 2", whole),
        ("Content-Length: +32", whole),
        ("Content-Length: -1", whole),
        ("Transfer-Encoding: gzip", whole),
        ("Transfer-Encoding: chunked", "ffffffffffffffffff\r\n{}"),
        ("Transfer-Encoding: chunked", "-1\r\n{}"),
        ("Transfer-Encoding: chunked", extension.as_str()),
    ] {
        let status = run(headers, body);
        assert!(status.is_none_or(|status| (400..500).contains(&status)), "{status:?}: {headers}");
    }

    works(&address);
    let grown = memory(daemon.pid()).saturating_sub(before);
    assert!(grown < 64 << 20, "{grown} bytes");
}
