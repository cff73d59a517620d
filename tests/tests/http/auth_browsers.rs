//! Requests that a hostile page makes a browser send: DNS rebinding, forms, and scripts.

use coracle_tests::http::{Answer, Request};
use coracle_tests::{Daemon, Home, requires};
use serde_json::json;

fn allows_no_page(answer: &Answer) {
    let cors: Vec<_> = answer.headers.iter().filter(|(name, _)| name.starts_with("access-control")).collect();
    assert!(cors.is_empty(), "{cors:?}");
}

#[test]
fn names_that_lead_here_but_are_not_ours_are_misdirected() {
    requires!(native);
    let home = Home::new();
    std::fs::write(home.path().join("config.toml"), "[serve]\nhosts = ['box.example.com']\n").expect("ours");
    let daemon = Daemon::start(&home);
    let text = home.token("acme", &[]);
    let asked = |host: &str| {
        let answer = Request::get("/v1/sandboxes").header("Host", host).token(&text).send(&daemon.tcp());
        allows_no_page(&answer);
        answer.status
    };

    for host in ["localhost", "127.0.0.1:1", "[::1]:80", "box.example.com"] {
        assert_eq!(asked(host), 200, "{host}");
    }
    for host in ["evil.com", "localhost.evil.com", "127.0.0.1.nip.io", "0.0.0.0", "localhost.", ""] {
        assert_eq!(asked(host), 421, "{host}");
    }
    let two = Request::get("/v1/sandboxes").header("Host", "localhost").header("Host", "evil.com");
    assert_eq!(two.token(&text).send(&daemon.tcp()).status, 421);
    let absolute = Request::get("http://evil.com/v1/sandboxes").header("Host", "localhost");
    assert_eq!(absolute.token(&text).send(&daemon.tcp()).status, 421);
    // Under another host name the daemon does not even say which paths exist, or what it is.
    for path in ["/healthz", "/openapi.json", "/nothing"] {
        assert_eq!(Request::get(path).header("Host", "evil.com").send(&daemon.tcp()).status, 421, "{path}");
    }
}

#[test]
fn a_request_without_a_name_is_refused() {
    requires!(native);
    let home = Home::new();
    let daemon = Daemon::start(&home);
    let mut stream = daemon.tcp().connect().expect("connects");

    stream.write_all(b"GET /healthz HTTP/1.0\r\n\r\n").expect("writes");
    let mut answer = String::new();
    let _ = stream.read_to_string(&mut answer);

    assert!(answer.starts_with("HTTP/1.0 421") || answer.starts_with("HTTP/1.1 421"), "{answer}");
}

#[test]
fn pages_that_are_not_allowed_send_nothing_even_with_a_token() {
    requires!(native);
    let home = Home::new();
    let daemon = Daemon::start(&home);
    let text = home.token("acme", &[]);
    let paths = ["/v1/sandboxes", "/v1/sandboxes/sbx_1/execs/e/stream", "/v1/sandboxes/sbx_1/execs/e/attach"];

    for path in paths {
        for origin in ["null", "https://evil.com", "http://localhost:3000", "http://127.0.0.1"] {
            let answer = Request::get(path).header("Origin", origin).token(&text).send(&daemon.tcp());
            assert_eq!((answer.status, answer.kind().as_str()), (403, "denied"), "{path} {origin}");
            allows_no_page(&answer);
        }
        let link = Request::get(path).header("Sec-Fetch-Site", "cross-site").token(&text).send(&daemon.tcp());
        assert_eq!(link.status, 403, "{path}");
    }
    let preflight = Request::new("OPTIONS", "/v1/sandboxes")
        .header("Origin", "https://evil.com")
        .header("Access-Control-Request-Method", "POST")
        .send(&daemon.tcp());
    assert_eq!(preflight.status, 403);
    allows_no_page(&preflight);
}

#[test]
fn forms_change_nothing() {
    requires!(native);
    let home = Home::new();
    let daemon = Daemon::start(&home);
    let text = home.token("acme", &[]);
    let body = json!({"code": "print(1)"}).to_string();

    for kind in
        ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "text/json"]
    {
        let form = Request::new("POST", "/v1/run").header("Content-Type", kind).body(body.clone());
        assert_eq!(form.clone().token(&text).send(&daemon.tcp()).status, 415, "{kind}");
        assert_eq!(form.clone().send(&daemon.unix()).status, 415, "{kind}");
        assert_eq!(form.send(&daemon.tcp()).status, 401, "{kind}");
    }
    let bare = Request::new("POST", "/v1/run").body(body).token(&text).send(&daemon.tcp());
    assert_eq!(bare.status, 415);
    assert!(home.live().is_empty());
}
