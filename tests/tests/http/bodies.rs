//! Bodies that do not come as they were announced.

use std::io::{ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;

use coracle_tests::daemon::Daemon;
use coracle_tests::{Home, SOON, requires};
use serde_json::Value;

/// Sends a head and the beginning of a body whose rest never comes; returns the connection.
pub fn begin(home: &Home, method: &str, path: &str, headers: &str) -> UnixStream {
    let mut stream = UnixStream::connect(home.path().join("coracle.sock")).expect("a daemon");
    let head = format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{headers}");
    let head = format!("{head}Content-Type: application/json\r\nContent-Length: 1000000\r\n\r\n");
    stream.write_all(head.as_bytes()).expect("the daemon reads");
    stream.write_all(&[b' '; 5000]).expect("the daemon reads");
    stream
}

/// Returns the status and the kind of the error on a connection.
pub fn answer(mut stream: UnixStream) -> (u16, String) {
    stream.set_read_timeout(Some(SOON)).expect("a socket has one");
    let mut text = Vec::new();
    // What was sent of the body and not read resets the connection behind the answer.
    if let Err(error) = stream.read_to_end(&mut text) {
        assert!(error.kind() == ErrorKind::ConnectionReset && !text.is_empty(), "no answer: {error}");
    }
    let text = String::from_utf8_lossy(&text);
    let status = text.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or_default();
    let body = text.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    let error: Value = serde_json::from_str(body).unwrap_or_default();
    (status, error["error"]["kind"].as_str().unwrap_or_default().to_owned())
}

#[test]
fn a_body_that_breaks_off_is_invalid_and_writes_nothing() {
    requires!(native);
    let home = Home::new();
    let sandbox = home.open();
    let _daemon = Daemon::start(&home);

    for (method, path) in [("PUT", &*format!("/v1/sandboxes/{sandbox}/files?path=torn")), ("POST", "/v1/run")]
    {
        let stream = begin(&home, method, path, "");
        stream.shutdown(Shutdown::Write).expect("it is open");
        assert_eq!(answer(stream), (400, "invalid".to_owned()), "{path}");
    }
    assert_eq!(home.exec(&sandbox, ["ls", "-A"]).succeed().text(), "");
}
