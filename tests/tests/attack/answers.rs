//! AN: answers that nobody reads. Judged by the daemon's memory, and by whether another tenant is served.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use coracle_tests::http::Request;
use coracle_tests::{Arena, Attack, Breaches, Daemon, Route, count};
use serde_json::{Value, json};

use crate::GROUND;

/// What the daemon may grow by, at its peak.
const GROWTH_MAX: u64 = 128 << 20;
/// As much as a command may write by default.
const OUTPUT: &str = "yes coracle | head -c 10000000";
const PATIENCE: Duration = Duration::from_secs(180);

/// Returns a line of a process's status that is a size, in bytes.
fn size(pid: u32, name: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("the daemon runs");
    let line = status.lines().find_map(|line| line.strip_prefix(name)).expect("its memory");
    line.trim_matches([':', ' ', '\t', 'k', 'B']).parse::<u64>().expect("a number") << 10
}

/// Sends a request, and reads nothing of the answer yet.
fn send(socket: &std::path::Path, token: &str, path: &str, headers: &str, body: &Value) -> UnixStream {
    let mut stream = UnixStream::connect(socket).expect("the daemon listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("it is a socket");
    let body = body.to_string();
    let length = body.len();
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n{headers}\
         Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body.as_bytes())).expect("it is read");
    stream
}

fn hoard(arena: &Arena<'_>) -> Breaches {
    let home = arena.home;
    let daemon = Daemon::start(home);
    let (hoarder, other) = (home.token("acme", &[]), home.token("globex", &[]));
    let opened: Vec<String> = (0..count(2, 16))
        .map(|_| {
            let opened = Request::post("/v1/sandboxes", &json!({})).token(&hoarder).send(&daemon.unix());
            opened.expect(200).json()["sandbox_id"].as_str().expect("an id").to_owned()
        })
        .collect();
    let run = Request::post("/v1/run", &json!({"cmd": ["echo", "hello"]})).token(&other);
    run.send(&daemon.unix()).expect(200);
    let before = size(daemon.pid(), "VmRSS");
    let socket = home.path().join("coracle.sock");

    let http = (0..count(12, 256)).map(|number| {
        let path = format!("/v1/sandboxes/{}/execs", opened[number % opened.len()]);
        send(&socket, &hoarder, &path, "", &json!({"cmd": ["sh", "-c", OUTPUT]}))
    });
    let mcp = (0..count(4, 64)).map(|number| {
        let arguments = json!({"sandbox_id": opened[number % opened.len()], "cmd": ["sh", "-c", OUTPUT]});
        let params = json!({"name": "sandbox_exec", "arguments": arguments});
        let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
        let headers = "Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: 2025-11-25\r\n";
        send(&socket, &hoarder, "/mcp", headers, &call)
    });
    // Each has the beginning of its answer, and the rest waits for somebody to read it.
    let unread: Vec<_> = http
        .chain(mcp)
        .collect::<Vec<_>>()
        .into_iter()
        .map(|mut stream| {
            let mut begin = [0; 12];
            stream.read_exact(&mut begin).expect("an answer begins");
            (stream, String::from_utf8_lossy(&begin).into_owned())
        })
        .collect();
    let served = run.try_send(&daemon.unix()).is_some_and(|answer| answer.status == 200);
    let grown = size(daemon.pid(), "VmHWM").saturating_sub(before);

    let answered = unread.iter().filter(|(_, begin)| begin.ends_with("200")).count();
    eprintln!("{} answers, {answered} of them whole: the daemon grew by {} MiB", unread.len(), grown >> 20);
    drop(unread);
    let again = coracle_tests::eventually(Duration::from_secs(30), || {
        let list = Request::get("/v1/sandboxes").token(&hoarder).try_send(&daemon.unix());
        list.is_some_and(|answer| answer.status == 200)
    });
    let mut breaches = Breaches::new();
    if grown > GROWTH_MAX {
        breaches.push(format!("the daemon grew by {} MiB", grown >> 20));
    }
    if !served {
        breaches.push("another tenant was not served".to_owned());
    }
    if again.is_none() {
        breaches.push("who has gone away is still charged".to_owned());
    }
    breaches
}

#[test]
fn an_01_answers_nobody_reads_do_not_fill_the_daemon() {
    Attack::row(GROUND, "AN-01", "large answers over HTTP and MCP that are asked for and never read")
        .by(&[Route::Create])
        .without(&["Answers"])
        .every(&["the daemon grew"])
        .run(hoard);
}
