//! Output as it comes, to readers of every kind.

use std::collections::BTreeMap;
use std::io::Write;
use std::time::{Duration, Instant};

use coracle_tests::http::{Opened, Request};
use coracle_tests::{Daemon, Home, count, eventually, requires};
use serde_json::json;

/// Prints a number of lines, slowly enough for others to come and go meanwhile.
fn lines(sandbox: &str, exec: &str, lines: usize, pause: f64) -> Request {
    let program =
        format!("import time\nfor n in range({lines}):\n    print(n, flush=True)\n    time.sleep({pause})");
    let body = json!({"cmd": ["python3", "-c", program], "stream": true, "exec_id": exec});
    Request::post(&format!("/v1/sandboxes/{sandbox}/execs"), &body)
}

fn stream(sandbox: &str, exec: &str, since: u64) -> Request {
    Request::get(&format!("/v1/sandboxes/{sandbox}/execs/{exec}/stream?since_seq={since}"))
}

/// Reads to the end; returns the text of each chunk by its number, and how it ended.
fn read(mut opened: Opened) -> (BTreeMap<u64, String>, Option<serde_json::Value>) {
    let mut chunks = BTreeMap::new();
    while let Some(event) = opened.event() {
        match event.name.as_str() {
            "chunk" => {
                let seq = event.data["seq"].as_u64().expect("a number");
                assert_eq!(event.id, seq.to_string());
                let text = event.data["text"].as_str().expect("text").to_owned();
                assert!(chunks.insert(seq, text).is_none(), "chunk {seq} came twice");
            }
            "end" => return (chunks, Some(event.data)),
            name => panic!("{name}: {}", event.data),
        }
    }
    (chunks, None)
}

fn text(chunks: &BTreeMap<u64, String>) -> String {
    chunks.values().map(String::as_str).collect()
}

fn numbers(until: usize) -> String {
    (0..until).map(|number| format!("{number}\n")).collect()
}

#[test]
fn output_comes_as_events_and_from_any_number_on() {
    requires!(native);
    let home = Home::new();
    let daemon = Daemon::start(&home);
    let (place, sandbox) = (daemon.unix(), home.open());
    lines(&sandbox, "count", 20, 0.01).send(&place).expect(200);

    let (whole, end) = read(stream(&sandbox, "count", 0).open(&place).expect("opens"));
    let middle = *whole.keys().nth(whole.len() / 2).expect("several chunks");
    let (rest, _) = read(stream(&sandbox, "count", middle).open(&place).expect("opens"));
    let last = Request::get(&format!("/v1/sandboxes/{sandbox}/execs/count/stream"))
        .header("Last-Event-ID", &middle.to_string());
    let (again, _) = read(last.open(&place).expect("opens"));

    assert_eq!(text(&whole), numbers(20));
    assert_eq!(end.expect("an end")["exit_code"], 0);
    assert_eq!(rest, whole.into_iter().filter(|(seq, _)| *seq > middle).collect());
    assert_eq!(again, rest);
}

#[test]
fn a_stream_of_what_is_not_there_is_refused_before_it_begins() {
    requires!(native);
    let home = Home::new();
    let daemon = Daemon::start(&home);
    let sandbox = home.open();

    let unknown = stream(&sandbox, "exec_unknown", 0).send(&daemon.unix());
    let foreign = stream(&sandbox, "exec_unknown", 0).header("Coracle-Run", "run_other").send(&daemon.unix());
    let nonsense = stream(&sandbox, "exec_unknown", 0).header("Last-Event-ID", "x").send(&daemon.unix());

    assert_eq!((unknown.status, foreign.status, nonsense.status), (404, 403, 400));
}

/// Threat RS-06: readers that do not read slow down no other.
#[test]
fn readers_who_do_not_read_change_nothing_for_the_command_and_for_others() {
    requires!(native);
    let home = Home::new();
    let daemon = Daemon::start(&home);
    let (place, sandbox) = (daemon.unix(), home.open());
    let loud = json!({"cmd": ["sh", "-c", "head -c 50000000 /dev/zero | tr '\\0' x; echo done"], "stream": true, "exec_id": "loud"});
    Request::post(&format!("/v1/sandboxes/{sandbox}/execs"), &loud).send(&place).expect(200);
    let before = memory(daemon.pid());

    let readers: Vec<_> = (0..count(200, 1000)).filter_map(|_| ask_and_leave(&daemon, &sandbox)).collect();
    let waited =
        Request::get(&format!("/v1/sandboxes/{sandbox}/execs/loud/wait?timeout_ms=20000")).send(&place);
    let mut slowest = Duration::ZERO;
    for _ in 0..20 {
        let began = Instant::now();
        let ran =
            Request::post(&format!("/v1/sandboxes/{sandbox}/execs"), &json!({"cmd": ["true"]})).send(&place);
        assert_eq!(ran.expect(200).json()["exit_code"], 0);
        slowest = slowest.max(began.elapsed());
    }

    let ended = waited.expect(200).json();
    assert_eq!(
        (&ended["done"], &ended["exit_code"], &ended["stdout_bytes"]),
        (&json!(true), &json!(0), &json!(50_000_005))
    );
    // A busy machine has its say in this, too; a command that waits for them would wait for a minute.
    assert!(slowest < Duration::from_secs(20), "{slowest:?}");
    // Some kilobytes for each connection, and pieces on their way for those that were given a stream.
    let grown = memory(daemon.pid()).saturating_sub(before);
    assert!(grown < 256 << 20, "{grown} bytes for {} readers", readers.len());
    drop(readers);
    let served = eventually(Duration::from_secs(60), || {
        stream(&sandbox, "loud", 0).open(&place).is_ok_and(|opened| opened.status == 200)
    });
    assert!(served.is_some(), "there is room again when they are gone");
}

/// Asks for a stream and reads nothing of it.
fn ask_and_leave(daemon: &Daemon, sandbox: &str) -> Option<Box<dyn coracle_tests::http::Stream>> {
    let mut stream = daemon.unix().connect().ok()?;
    let head = format!("GET /v1/sandboxes/{sandbox}/execs/loud/stream HTTP/1.1\r\nHost: x\r\n\r\n");
    stream.write_all(head.as_bytes()).ok()?;
    Some(stream)
}

pub fn memory(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("the daemon runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("its memory");
    line.trim().trim_end_matches(" kB").trim().parse::<u64>().expect("a number") << 10
}
