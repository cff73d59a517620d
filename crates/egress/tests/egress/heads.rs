//! Requests to the proxy: it passes on what every reader takes for one request, and refuses the rest.

use coracle_egress::body::Measure;
use coracle_egress::head::{self, Authority, Body, Head, Odd, Resemblance, Target};

fn read(text: &str) -> Result<Head, Odd> {
    Head::read(text.as_bytes())
}

fn authority(host: &str, port: u16) -> Authority {
    Authority { host: host.parse().expect("a host"), port }
}

fn is_ambiguous(text: &str) -> bool {
    matches!(read(text), Err(Odd::Ambiguous(_)))
}

#[test]
fn the_three_kinds_of_requests_are_told_apart() {
    let tunnel =
        read("CONNECT OK.test.:443 HTTP/1.1\r\nHost: ok.test:443\r\n\r\n").expect("a request").target;
    let absolute =
        read("GET http://ok.test:8080/a?b HTTP/1.1\r\nHost: ok.test:8080\r\n\r\n").expect("one").target;
    let origin = read("GET /a HTTP/1.1\r\nHost: ok.test\r\n\r\n").expect("a request").target;

    assert_eq!(tunnel, Target::Tunnel(authority("ok.test", 443)));
    assert_eq!(absolute, Target::Absolute(authority("ok.test", 8080), "/a?b".to_owned()));
    assert_eq!(origin, Target::Origin(Some(authority("ok.test", 80)), "/a".to_owned()));
}

#[test]
fn what_is_passed_on_is_written_anew_for_one_request() {
    let text = "POST HTTP://OK.test?x HTTP/1.1\r\nHost: ok.test\r\nProxy-Connection: keep-alive\r\nConnection: X-Own, close\r\n\
                X-Own: 1\r\nProxy-Authorization: secret\r\nX-Kept:  a b\t\r\nContent-Length: 3\r\nTE: trailers\r\n\r\n";

    let head = read(text).expect("a request");

    let written = String::from_utf8(head.rewritten(&authority("ok.test", 80))).expect("text");
    assert_eq!(
        written,
        "POST /?x HTTP/1.1\r\nHost: ok.test\r\nx-kept: a b\r\ncontent-length: 3\r\nConnection: close\r\n\r\n"
    );
    assert_eq!(head.body, Body::Length(3));
}

#[test]
fn an_upgrade_is_passed_on_and_http_two_is_not() {
    let websocket =
        "GET http://ok.test/ HTTP/1.1\r\nHost: ok.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";
    let two = "GET http://ok.test/ HTTP/1.1\r\nHost: ok.test\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n";

    let upgraded = read(websocket).expect("a request");
    let plain = read(two).expect("a request");

    assert_eq!(upgraded.upgrade.as_deref(), Some(&b"websocket"[..]));
    let written = String::from_utf8(plain.rewritten(&authority("ok.test", 80))).expect("text");
    assert!(!written.to_ascii_lowercase().contains("upgrade"), "{written}");
}

#[test]
fn what_two_readers_could_take_for_different_requests_is_refused() {
    let host = "Host: ok.test\r\n";
    for fields in [
        "Content-Length: 3\r\nContent-Length: 4\r\n",
        "Content-Length: 3\r\nContent-Length: 3\r\n",
        "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: gzip, chunked\r\n",
        "Transfer-Encoding: xchunked\r\n",
        "Transfer-Encoding : chunked\r\n",
        "Content-Length: +3\r\n",
        "Content-Length: 0x3\r\n",
        "Content-Length: 3, 3\r\n",
        "Content-Length: \r\n",
        "Content-Length: 9999999999999999999\r\n",
        "X: a\r\n b\r\n",
        "X: a\r\n\tb\r\n",
        "X: a\nY: b\r\n",
        "X: a\rb\r\n",
        "X: a\0b\r\n",
        "X: a\u{7f}b\r\n",
        " X: a\r\n",
        ": a\r\n",
        "X\r\n",
        "X Y: a\r\n",
        "Host: ok.test\r\n",
        "Connection: content-length\r\nContent-Length: 3\r\n",
        "Connection: host\r\n",
    ] {
        assert!(is_ambiguous(&format!("POST http://ok.test/ HTTP/1.1\r\n{host}{fields}\r\n")), "{fields:?}");
    }
    for line in [
        "GET  http://ok.test/ HTTP/1.1",
        "GET http://ok.test/  HTTP/1.1",
        " GET http://ok.test/ HTTP/1.1",
        "GET http://ok.test/ HTTP/1.1 ",
        "GET\thttp://ok.test/ HTTP/1.1",
        "GET http://ok.test/ HTTP/2.0",
        "GET http://ok.test/ HTTP/1.11",
        "GET http://ok.test/ http/1.1",
        "GET http://ok.test/",
        "GET http://ok.test/#x HTTP/1.1",
        "GET http://ok.test/\u{e9} HTTP/1.1",
        "GET https://ok.test/ HTTP/1.1",
        "GET ftp://ok.test/ HTTP/1.1",
        "GET ok.test/ HTTP/1.1",
        "G(T http://ok.test/ HTTP/1.1",
        "CONNECT ok.test HTTP/1.1",
    ] {
        assert!(is_ambiguous(&format!("{line}\r\n{host}\r\n")), "{line:?}");
    }
    assert!(is_ambiguous("GET http://ok.test/ HTTP/1.1\r\n\r\n"), "no host");
    assert!(is_ambiguous("POST http://ok.test/ HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n"));
    let many = "X: 1\r\n".repeat(101);
    assert!(is_ambiguous(&format!("GET http://ok.test/ HTTP/1.1\r\n{host}{many}\r\n")));
}

#[test]
fn a_host_field_of_another_host_is_a_mismatch() {
    for text in [
        "GET http://ok.test/ HTTP/1.1\r\nHost: evil.test\r\n\r\n",
        "CONNECT ok.test:443 HTTP/1.1\r\nHost: evil.test:443\r\n\r\n",
    ] {
        assert!(matches!(read(text), Err(Odd::Mismatch { host, .. }) if host == "evil.test"), "{text}");
    }
}

#[test]
fn odd_hosts_are_named_and_refused() {
    for target in [
        "http://ok.test@evil.test/",
        "http://ok.test%00.evil/",
        "http://2852039166/",
        "http://127.1/",
        "http://0x7f.1/",
        "http://[fe80::1%25lo]/",
        "http://ok.test:99999/",
        "http:///",
        "http://ok..test/",
    ] {
        let text = format!("GET {target} HTTP/1.1\r\nHost: ok.test\r\n\r\n");
        assert!(matches!(read(&text), Err(Odd::Host { .. })), "{target}: {:?}", read(&text));
    }
}

#[test]
fn a_head_ends_at_its_empty_line() {
    assert_eq!(head::length(b"GET / HTTP/1.1\r\n\r\nrest"), Some(18));
    assert_eq!(head::length(b"GET / HTTP/1.1\r\n\r"), None);
    assert_eq!(head::length(b"GET / HTTP/1.1\n\n"), None);
    assert!(head::may_be_http(b"GE") && head::may_be_http(b"GET /") && !head::may_be_http(b"\x16\x03"));
}

#[test]
fn whatever_a_generous_server_would_take_for_a_request_looks_like_one() {
    for request in [
        "GET / HTTP/1.1\r\n",
        "\r\n\r\nGET / HTTP/1.1\r\n",
        "\nfoo x HTTP/1.0\n",
        "get / http/1.1 \r\nHost: x",
    ] {
        assert_eq!(head::resemblance(request.as_bytes()), Resemblance::Request, "{request:?}");
    }
    for half in ["", "\r\n", "GET", "GET / HTT"] {
        assert_eq!(head::resemblance(half.as_bytes()), Resemblance::Beginning, "{half:?}");
    }
    for other in [
        "PING\r\n",
        "SSH-2.0-x\r\n",
        "\0\0\0\u{8}",
        "get key\r\n",
        "*1\r\n$4\r\nPING\r\n",
        "PRI * HTTP/2.0\r\n",
    ] {
        assert_eq!(head::resemblance(other.as_bytes()), Resemblance::None, "{other:?}");
    }
}

/// Feeds a body in steps and returns how many bytes belonged to it.
fn measured(body: Body, bytes: &[u8], step: usize) -> Option<usize> {
    let mut measure = Measure::new(body);
    let mut taken = 0;
    for piece in bytes.chunks(step) {
        taken += measure.take(piece).ok()?;
        if measure.is_done() {
            return Some(taken);
        }
    }
    None
}

#[test]
fn a_body_ends_where_it_says_however_it_comes() {
    let chunked = b"5\r\nhello\r\nA\r\n0123456789\r\n0\r\n\r\nGET / HTTP/1.1\r\n";
    for step in 1..chunked.len() {
        assert_eq!(measured(Body::Chunked, chunked, step), Some(chunked.len() - 16), "in pieces of {step}");
        assert_eq!(measured(Body::Length(5), b"helloGET /", step), Some(5));
    }
    assert!(Measure::new(Body::Length(0)).is_done());
}

#[test]
fn a_body_that_is_not_coded_as_it_says_is_refused() {
    for bytes in [
        &b"5;ext=1\r\nhello\r\n"[..],
        b"5\nhello\n",
        b"-5\r\n",
        b"+5\r\n",
        b"0x5\r\nhello\r\n",
        b" 5\r\nhello\r\n",
        b"\r\n",
        b"5\r\nhelloX",
        b"0\r\nTrailer: x\r\n\r\n",
        b"ffffffffffffffff\r\n",
        b"00000000000000000000000005\r\nhello\r\n",
    ] {
        assert!(Measure::new(Body::Chunked).take(bytes).is_err(), "{:?}", String::from_utf8_lossy(bytes));
    }
}
