//! AN: answers that clients do not read. Judged by the daemon's memory, and by whether another tenant is served.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use coracle_tests::http::Request;
use coracle_tests::{Arena, Attack, Breaches, Daemon, Home, Route, count};
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
fn send(socket: &Path, token: &str, target: &str, headers: &str, body: &str) -> UnixStream {
    let mut stream = UnixStream::connect(socket).expect("the daemon listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("it is a socket");
    let length = body.len();
    let head = format!(
        "{target} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n{headers}\
         Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body.as_bytes())).expect("it is read");
    stream
}

/// Calls a tool over MCP, and reads nothing of the answer yet.
fn call(socket: &Path, token: &str, tool: &str, arguments: &Value) -> UnixStream {
    let params = json!({"name": tool, "arguments": arguments});
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
    let headers = "Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: 2025-11-25\r\n";
    send(socket, token, "POST /mcp?with=inventory", headers, &call.to_string())
}

/// A daemon with a tenant who asks and does not read.
struct Scene {
    daemon: Daemon,
    socket: PathBuf,
    token: String,
    sandboxes: Vec<String>,
}

impl Scene {
    /// Opens sandboxes for the tenant.
    fn of(home: &Home, spec: &Value, sandboxes: usize) -> Self {
        let daemon = Daemon::start(home);
        let token = home.token("acme", &[]);
        let open = |_| {
            let opened = Request::post("/v1/sandboxes", spec).token(&token).send(&daemon.unix());
            opened.expect(200).json()["sandbox_id"].as_str().expect("an id").to_owned()
        };
        let sandboxes = (0..sandboxes).map(open).collect();
        Self { socket: home.path().join("coracle.sock"), daemon, token, sandboxes }
    }

    fn sandbox(&self, number: usize) -> &str {
        &self.sandboxes[number % self.sandboxes.len()]
    }

    /// Has the tenant ask, in one wave for each way it has, and returns the results: each client has the beginning
    /// of an answer, and the rest waits to be read.
    fn judged(&self, home: &Home, waves: impl FnOnce(&Self) -> Vec<Wave>) -> Breaches {
        let daemon = &self.daemon;
        let other = home.token("globex", &[]);
        let run = Request::post("/v1/run", &json!({"cmd": ["echo", "hello"]})).token(&other);
        run.send(&daemon.unix()).expect(200);
        let before = size(daemon.pid(), "VmRSS");

        let unread = waves(self);
        let served = run.try_send(&daemon.unix()).is_some_and(|answer| answer.status == 200);
        let grown = size(daemon.pid(), "VmHWM").saturating_sub(before);

        for wave in &unread {
            let answered = wave.iter().filter(|(_, begin)| begin.ends_with("200")).count();
            eprintln!("{} asked, {answered} answered: the daemon grew by {} MiB", wave.len(), grown >> 20);
            // If the daemon refused every request, the test would show nothing.
            assert!(answered > 0, "none of {} was answered: {}", wave.len(), wave[0].1);
        }
        drop(unread);
        let again = coracle_tests::eventually(Duration::from_secs(30), || {
            let list = Request::get("/v1/sandboxes").token(&self.token).try_send(&daemon.unix());
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
}

/// Answers that were asked for together, with the beginning of each.
type Wave = Vec<(UnixStream, String)>;

/// Waits until each answer begins.
fn begun(wave: Vec<UnixStream>) -> Wave {
    let first = |mut stream: UnixStream| {
        let mut begin = [0; 12];
        stream.read_exact(&mut begin).expect("an answer begins");
        (stream, String::from_utf8_lossy(&begin).into_owned())
    };
    wave.into_iter().map(first).collect()
}

fn outputs(arena: &Arena<'_>) -> Breaches {
    let scene = Scene::of(arena.home, &json!({}), count(2, 16));
    scene.judged(arena.home, |scene| {
        let Scene { socket, token, .. } = scene;
        // First, and until they are answered: both doors take from one share, and on a busy machine the others overtake.
        let mcp = (0..count(4, 64)).map(|number| {
            let input = json!({"sandbox_id": scene.sandbox(number), "cmd": ["sh", "-c", OUTPUT]});
            call(socket, token, "sandbox_exec", &input)
        });
        let mcp = begun(mcp.collect());
        let http = (0..count(12, 256)).map(|number| {
            let target = format!("POST /v1/sandboxes/{}/execs", scene.sandbox(number));
            send(socket, token, &target, "", &json!({"cmd": ["sh", "-c", OUTPUT]}).to_string())
        });
        vec![mcp, begun(http.collect())]
    })
}

fn downloads(arena: &Arena<'_>) -> Breaches {
    let scene = Scene::of(arena.home, &json!({}), count(1, 3));
    for sandbox in &scene.sandboxes {
        let path = format!("/v1/sandboxes/{sandbox}/execs");
        let cmd = json!({"cmd": ["sh", "-c", format!("{OUTPUT} > /workspace/large")]});
        Request::post(&path, &cmd).token(&scene.token).send(&scene.daemon.unix()).expect(200);
    }
    scene.judged(arena.home, |scene| {
        let wave = (0..count(48, 192)).map(|number| {
            let target = format!("GET /v1/sandboxes/{}/files?path=large", scene.sandbox(number));
            send(&scene.socket, &scene.token, &target, "", "")
        });
        vec![begun(wave.collect())]
    })
}

fn records(arena: &Arena<'_>) -> Breaches {
    // Each of these characters is six in JSON: half a mebibyte of environment is three of an answer.
    let value = "\u{1}".repeat(120 << 10);
    let env: Value = (0..4).map(|number| (format!("LONG_{number}"), json!(value))).collect();
    let scene = Scene::of(arena.home, &json!({"env": env}), 1);
    scene.judged(arena.home, |scene| {
        let (Scene { socket, token, .. }, sandbox) = (scene, scene.sandbox(0));
        let mcp =
            (0..count(8, 64)).map(|_| call(socket, token, "sandbox_get", &json!({"sandbox_id": sandbox})));
        let mcp = begun(mcp.collect());
        let target = format!("GET /v1/sandboxes/{sandbox}");
        let http = (0..count(72, 256)).map(|_| send(socket, token, &target, "", ""));
        vec![mcp, begun(http.collect())]
    })
}

#[test]
fn an_01_answers_nobody_reads_do_not_fill_the_daemon() {
    Attack::row(GROUND, "AN-01", "large answers over HTTP and MCP that are asked for and never read")
        .by(&[Route::Create])
        .without(&["Answers"])
        .every(&["the daemon grew"])
        .run(outputs);
}

#[test]
fn an_03_downloads_nobody_reads_do_not_fill_the_daemon() {
    Attack::row(GROUND, "AN-03", "downloads of large files that are begun and never read")
        .by(&[Route::Create])
        .without(&["Answers"])
        .every(&["the daemon grew"])
        .run(downloads);
}

#[test]
fn an_04_records_nobody_reads_do_not_fill_the_daemon() {
    Attack::row(GROUND, "AN-04", "records with a large environment that are asked for and never read")
        .by(&[Route::Create])
        .without(&["Answers"])
        .every(&["the daemon grew"])
        .run(records);
}
