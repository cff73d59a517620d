//! Cancelling from each door, during every long operation: the call ends at once and leaves nothing.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use coracle_tests::daemon::Daemon;
use coracle_tests::engines::{TEST_IMAGE, docker};
use coracle_tests::http::{Answer, Request};
use coracle_tests::mcp::Client;
use coracle_tests::{Home, SOON, Started, eventually, requires};
use rustix::process::Signal;
use serde_json::{Value, json};

/// A second, and what a machine as busy as they get may add. What is cancelled would go on for minutes.
const AT_ONCE: Duration = Duration::from_secs(8);
/// Long enough for the work to have begun.
const DEADLINE: Duration = Duration::from_secs(3);

/// A way to ask for something and to take it back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Door {
    /// The command line, and an interrupt.
    Interrupt,
    /// HTTP, and `DELETE` of the request by its key.
    Delete,
    /// HTTP, and the end of the connection.
    Disconnect,
    /// HTTP, with a deadline.
    Deadline,
    /// MCP, and `notifications/cancelled`.
    Mcp,
}

const DOORS: [Door; 5] = [Door::Interrupt, Door::Delete, Door::Disconnect, Door::Deadline, Door::Mcp];

/// Something that takes long, as each door asks for it.
struct Work {
    path: String,
    body: Value,
    tool: &'static str,
    arguments: Value,
    words: Vec<String>,
}

/// The same work under way.
enum Asked {
    Process(Started),
    Request(Daemon, std::thread::JoinHandle<Option<Value>>),
    Connection(Daemon, UnixStream),
    Tool(Client, u64),
}

impl Asked {
    /// Returns what has come back, to explain why nothing begins.
    fn heard(&self) -> String {
        match self {
            Self::Process(process) => String::from_utf8_lossy(&process.stderr()).into_owned(),
            Self::Tool(client, _) => format!("{:?}", client.heard()),
            Self::Request(daemon, _) | Self::Connection(daemon, _) => daemon.said(),
        }
    }
}

impl Work {
    fn ask(&self, home: &Home, door: Door) -> Asked {
        match door {
            Door::Interrupt => Asked::Process(home.call(&self.words).start()),
            Door::Delete | Door::Deadline => {
                let daemon = Daemon::start(home);
                let (address, request) = (daemon.unix(), Request::post(&self.path, &self.body));
                let request = match door {
                    Door::Delete => request.header("Idempotency-Key", "long"),
                    _ => request.header("Coracle-Deadline", &format!("{}s", DEADLINE.as_secs())),
                };
                let sent = move || request.try_send(&address).map(|answer| answer.json());
                Asked::Request(daemon, std::thread::spawn(sent))
            }
            Door::Disconnect => {
                let daemon = Daemon::start(home);
                let mut stream = UnixStream::connect(home.path().join("coracle.sock")).expect("a daemon");
                let request = Request::post(&self.path, &self.body).bytes(&daemon.unix());
                stream.write_all(&request).expect("the daemon reads");
                Asked::Connection(daemon, stream)
            }
            Door::Mcp => {
                let client = Client::start(home, &["--with", "all", "--let-choose", "image"]);
                let call = json!({"name": self.tool, "arguments": self.arguments});
                let id = client.send("tools/call", call);
                Asked::Tool(client, id)
            }
        }
    }
}

/// Takes it back, and returns what keeps the server alive.
fn take_back(asked: Asked, door: Door) -> Option<Box<dyn std::any::Any>> {
    match asked {
        Asked::Process(process) => {
            process.signal(Signal::INT);
            process.finish();
            None
        }
        Asked::Request(daemon, answer) => {
            if door == Door::Delete {
                Request::delete("/v1/requests/long").send(&daemon.unix()).expect(200);
            }
            let answer = answer.join().expect("it does not panic").expect("it is answered");
            let kind = if door == Door::Delete { "aborted" } else { "timeout" };
            assert_eq!(answer["error"]["kind"], kind, "{answer}");
            Some(Box::new(daemon))
        }
        Asked::Connection(daemon, stream) => {
            drop(stream);
            Some(Box::new(daemon))
        }
        Asked::Tool(client, id) => {
            client.notify("notifications/cancelled", json!({"requestId": id}));
            Some(Box::new(client))
        }
    }
}

/// Has work begun and taken back at each of these doors.
#[track_caller]
fn expect_ends(
    doors: &[Door],
    home: &Home,
    work: &Work,
    has_begun: impl Fn() -> bool,
    is_over: impl Fn() -> bool,
) {
    for door in doors {
        let asked = work.ask(home, *door);
        assert!(eventually(SOON, &has_begun).is_some(), "{door:?}: it does not begin: {}", asked.heard());
        let began = Instant::now();
        let server = take_back(asked, *door);
        assert!(eventually(SOON, &is_over).is_some(), "{door:?}: it goes on");
        // A deadline comes by itself.
        let allowed = if *door == Door::Deadline { AT_ONCE + DEADLINE } else { AT_ONCE };
        assert!(began.elapsed() < allowed, "{door:?}: {:?}", began.elapsed());
        drop(server);
    }
}

/// A registry that takes every request and answers none.
struct Stalled {
    address: String,
    waiting: Arc<AtomicUsize>,
}

impl Stalled {
    fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let address = listener.local_addr().expect("it has one").to_string();
        let waiting = Arc::<AtomicUsize>::default();
        let counted = waiting.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let waiting = counted.clone();
                waiting.fetch_add(1, Ordering::SeqCst);
                std::thread::spawn(move || {
                    let mut stream = stream;
                    while stream.read(&mut [0; 4096]).is_ok_and(|length| length > 0) {}
                    waiting.fetch_sub(1, Ordering::SeqCst);
                });
            }
        });
        Self { address, waiting }
    }

    fn has_clients(&self) -> bool {
        self.waiting.load(Ordering::SeqCst) > 0
    }
}

/// Has models ask for an image at a registry of this machine.
fn allow(home: &Home, image: &str) {
    let settings = format!("[images]\nallow = ['host', '{image}']\n");
    std::fs::write(home.path().join("config.toml"), settings).expect("the home is ours");
}

#[test]
fn a_pull_from_a_registry_that_never_answers() {
    requires!(native);
    let (home, registry) = (Home::new(), Stalled::new());
    let image = format!("{}/app:1", registry.address);
    allow(&home, &image);
    let work = Work {
        path: "/v1/images/pull".to_owned(),
        body: json!({"reference": image}),
        tool: "image_pull",
        arguments: json!({"reference": image}),
        words: vec!["image".to_owned(), "pull".to_owned(), image],
    };

    expect_ends(&DOORS, &home, &work, || registry.has_clients(), || !registry.has_clients());
}

#[test]
fn a_sandbox_whose_image_never_comes() {
    requires!(native);
    let (home, registry) = (Home::new(), Stalled::new());
    let image = format!("{}/app:1", registry.address);
    allow(&home, &image);
    let work = Work {
        path: "/v1/sandboxes".to_owned(),
        body: json!({"image": image}),
        tool: "sandbox_open",
        arguments: json!({"image": image}),
        words: ["open", "--image", &image].map(str::to_owned).to_vec(),
    };

    expect_ends(&DOORS, &home, &work, || registry.has_clients(), || !registry.has_clients());
    home.call(["gc"]).succeed();
    home.expect_no_orphans();
    assert!(home.live().is_empty(), "{:?}", home.live());
}

#[test]
fn a_command() {
    requires!(native);
    let home = Home::new();
    let sandbox = home.open();
    let work = Work {
        path: format!("/v1/sandboxes/{sandbox}/execs"),
        body: json!({"cmd": ["sleep", "903.1"]}),
        tool: "sandbox_exec",
        arguments: json!({"sandbox_id": sandbox, "cmd": ["sleep", "903.1"]}),
        words: ["exec", &sandbox, "--", "sleep", "903.1"].map(str::to_owned).to_vec(),
    };
    let runs = || !home.census().named("sleep 903.1").is_empty();

    let doors = [Door::Interrupt, Door::Delete, Door::Deadline, Door::Mcp];
    expect_ends(&doors, &home, &work, runs, || !runs());

    // A command survives its reader: it is found again by its id.
    let asked = work.ask(&home, Door::Disconnect);
    assert!(eventually(SOON, runs).is_some());
    let _server = take_back(asked, Door::Disconnect);
    std::thread::sleep(Duration::from_secs(1));
    assert!(runs(), "a client that leaves does not end a command");
}

#[test]
fn a_command_in_a_sandbox_that_is_paused() {
    requires!(native);
    let home = Home::new();
    let sandbox = home.open();
    let daemon = Daemon::start(&home);
    let runs = || !home.census().named("sleep 903.7").is_empty();
    let path = format!("/v1/sandboxes/{sandbox}/execs");
    let request =
        Request::post(&path, &json!({"cmd": ["sleep", "903.7"]})).header("Idempotency-Key", "frozen");
    let address = daemon.unix();
    let asked = std::thread::spawn(move || request.send(&address).kind());
    assert!(eventually(SOON, runs).is_some());
    home.call(["pause", &sandbox]).succeed();

    let began = Instant::now();
    Request::delete("/v1/requests/frozen").send(&daemon.unix()).expect(200);

    assert_eq!(asked.join().expect("it does not panic"), "aborted");
    assert!(eventually(SOON, || !runs()).is_some(), "frozen or not, it is dead");
    assert!(began.elapsed() < AT_ONCE, "{:?}", began.elapsed());
    home.call(["resume", &sandbox]).succeed();
    home.exec(&sandbox, ["true"]).succeed();
}

#[test]
fn a_request_whose_client_has_left_is_cancelled_by_its_key_with_a_token_for_it() {
    requires!(native);
    let home = Home::new();
    let daemon = Daemon::start(&home);
    let token = home.token("acme", &[]);
    let narrow = home.token("acme", &["--allow", "sandbox_list"]);
    let body = json!({"cmd": ["sleep", "903.5"]});
    let request = Request::post("/v1/run", &body).token(&token).header("Idempotency-Key", "left");
    let runs = || !home.census().named("sleep 903.5").is_empty();

    let mut stream = TcpStream::connect(daemon.address()).expect("a daemon");
    stream.write_all(&request.bytes(&daemon.tcp())).expect("the daemon reads");
    assert!(eventually(SOON, runs).is_some());
    drop(stream);
    // Sent again it is refused while the first is carried out, and that does not make the first one's key free.
    assert_eq!(request.send(&daemon.tcp()).status, 409);
    let cancel = |token: &str| Request::delete("/v1/requests/left").token(token).send(&daemon.tcp());

    assert_eq!(cancel(&narrow).status, 403, "who may not run may not cancel");
    assert!(runs());
    cancel(&token).expect(200);

    assert!(eventually(SOON, || !runs()).is_some());
    let answer = eventually(SOON, || request.send(&daemon.tcp()).kind() == "aborted");
    assert!(answer.is_some(), "its answer is kept");
    assert_eq!(cancel(&token).status, 404);
}

#[test]
fn a_request_below_another_ceiling_is_not_found_by_its_key() {
    requires!(native);
    let home = Home::new();
    let daemon = Daemon::start(&home);
    let token = home.token("acme", &[]);
    let bounded = home.token("acme", &["--max-memory", "1g"]);
    let other = home.token("acme", &[]);
    let body = json!({"cmd": ["sleep", "903.6"]});
    let request = Request::post("/v1/run", &body).token(&token).header("Idempotency-Key", "high");
    let runs = || !home.census().named("sleep 903.6").is_empty();
    let address = daemon.tcp();
    let asked = std::thread::spawn(move || request.send(&address));
    assert!(eventually(SOON, runs).is_some());
    let cancel = |token: &str, key: &str| {
        Request::delete(&format!("/v1/requests/{key}")).token(token).send(&daemon.tcp())
    };

    let (refused, unknown) = (cancel(&bounded, "high"), cancel(&bounded, "none"));

    let plain = |answer: Answer| String::from_utf8_lossy(&answer.body).replace("`none`", "`high`");
    assert_eq!((refused.status, plain(refused)), (404, plain(unknown)));
    assert!(runs());
    cancel(&other, "high").expect(200);
    assert_eq!(asked.join().expect("it does not panic").kind(), "aborted");
}

#[test]
fn a_call_that_joined_a_command_ends_its_own_wait_alone() {
    requires!(native);
    let home = Home::new();
    let sandbox = home.open();
    let daemon = Daemon::start(&home);
    let path = format!("/v1/sandboxes/{sandbox}/execs");
    let body = json!({"cmd": ["sleep", "903.7"], "exec_id": "shared"});
    let runs = || !home.census().named("sleep 903.7").is_empty();
    let first = Request::post(&path, &body).header("Idempotency-Key", "first");
    let address = daemon.unix();
    let started = std::thread::spawn(move || first.send(&address));
    assert!(eventually(SOON, runs).is_some());

    let joined = Request::post(&path, &body).header("Coracle-Deadline", "1s").send(&daemon.unix());
    let second = Request::post(&path, &body).header("Idempotency-Key", "second");
    let address = daemon.unix();
    let keyed = std::thread::spawn(move || second.send(&address));
    let cancel = |key: &str| Request::delete(&format!("/v1/requests/{key}")).send(&daemon.unix());
    assert!(eventually(SOON, || cancel("second").status == 200).is_some());

    assert_eq!(joined.kind(), "timeout");
    assert_eq!(keyed.join().expect("it does not panic").kind(), "aborted");
    assert!(runs(), "another call has started it");
    cancel("first").expect(200);
    assert_eq!(started.join().expect("it does not panic").kind(), "aborted");
    assert!(eventually(SOON, || !runs()).is_some());
}

#[test]
fn a_command_in_a_sandbox_of_its_own() {
    requires!(native);
    let home = Home::new();
    let work = Work {
        path: "/v1/run".to_owned(),
        body: json!({"cmd": ["sleep", "903.2"]}),
        tool: "sandbox_run",
        arguments: json!({"code": "import os; os.execvp('sleep', ['sleep', '903.2'])"}),
        words: ["run", "--", "sleep", "903.2"].map(str::to_owned).to_vec(),
    };
    let runs = || !home.census().named("sleep 903.2").is_empty();

    expect_ends(&DOORS, &home, &work, runs, || !runs() && home.live().is_empty());
    home.expect_nothing_left();
}

#[test]
fn a_wait_for_a_command() {
    requires!(native);
    let home = Home::new();
    let sandbox = home.open();
    home.call(["exec", &sandbox, "--detach", "--id", "long", "--", "sleep", "903.3"]).succeed();
    let daemon = Daemon::start(&home);
    let path = format!("/v1/sandboxes/{sandbox}/execs/long");
    let connections = || sockets(daemon.pid());
    let before = connections();

    for way in [format!("{path}/wait"), format!("{path}/stream")] {
        let request = Request::get(&way).bytes(&daemon.unix());
        let mut stream = UnixStream::connect(home.path().join("coracle.sock")).expect("a daemon");
        stream.write_all(&request).expect("the daemon reads");
        // The client's connection, and the one to the guest.
        assert!(eventually(SOON, || connections() >= before + 2).is_some(), "{way}: it does not begin");
        drop(stream);
        let took = eventually(SOON, || connections() <= before);
        assert!(took.is_some_and(|took| took < AT_ONCE), "{way}: {took:?}");
    }
    let late = Request::get(&format!("{path}/wait")).header("Coracle-Deadline", "1s").send(&daemon.unix());
    assert_eq!(late.kind(), "timeout");
    let client = Client::start(&home, &[]);
    let wait = json!({"sandbox_id": sandbox, "exec_id": "long"});
    let connections = || sockets(client.process.pid());
    let before = connections();
    let id = client.send("tools/call", json!({"name": "sandbox_exec_wait", "arguments": wait}));
    assert!(eventually(SOON, || connections() > before).is_some());
    client.notify("notifications/cancelled", json!({"requestId": id}));
    assert!(eventually(SOON, || connections() == before).is_some_and(|took| took < AT_ONCE));
    for words in [vec!["wait", &sandbox, "long"], vec!["logs", "--follow", &sandbox, "long"]] {
        let process = home.call(words).start();
        assert!(eventually(SOON, || sockets(process.pid()) >= 1).is_some());
        process.signal(Signal::INT);
        process.finish();
    }
    assert!(!home.census().named("sleep 903.3").is_empty(), "who waits does not end what is waited for");
}

/// A guest has 256 connections at once, and a wait that nothing cuts short takes up to 20 seconds there.
#[test]
fn waits_that_have_ended_take_no_place_at_the_guest() {
    requires!(native);
    let home = Home::new();
    let sandbox = home.open();
    home.call(["exec", &sandbox, "--detach", "--id", "long", "--", "sleep", "903.6"]).succeed();
    let daemon = Daemon::start(&home);
    let wait = format!("/v1/sandboxes/{sandbox}/execs/long/wait");

    std::thread::scope(|scope| {
        for _ in 0..30 {
            let (wait, address) = (wait.clone(), daemon.unix());
            scope.spawn(move || {
                for _ in 0..10 {
                    let late = Request::get(&wait).header("Coracle-Deadline", "100ms").send(&address);
                    assert_eq!(late.kind(), "timeout");
                }
            });
        }
    });

    let path = format!("/v1/sandboxes/{sandbox}/execs");
    Request::post(&path, &json!({"cmd": ["true"]})).send(&daemon.unix()).expect(200);
}

/// Returns how many sockets a process has open that are connected: not those that listen.
fn sockets(pid: u32) -> usize {
    let Ok(entries) = std::fs::read_dir(format!("/proc/{pid}/fd")) else { return 0 };
    let links = entries.flatten().filter_map(|entry| std::fs::read_link(entry.path()).ok());
    links.filter(|link| link.to_string_lossy().starts_with("socket:")).count()
}

#[test]
fn forks_of_a_sandbox() {
    requires!(native);
    let home = Home::new();
    let sandbox = home.open();
    let work = Work {
        path: format!("/v1/sandboxes/{sandbox}/fork"),
        body: json!({"count": 100}),
        tool: "sandbox_fork",
        arguments: json!({"sandbox_id": sandbox, "count": 100}),
        words: ["fork", &sandbox, "--count", "100"].map(str::to_owned).to_vec(),
    };
    let guests = || home.census().guests().len();

    for door in [Door::Delete, Door::Disconnect, Door::Mcp] {
        expect_ends(&[door], &home, &work, || guests() > 3, || guests() == 1);
    }
    // On the command line an interrupt ends the process; what it made is swept.
    let asked = work.ask(&home, Door::Interrupt);
    assert!(eventually(SOON, || guests() > 3).is_some());
    take_back(asked, Door::Interrupt);
    home.call(["gc"]).succeed();
    assert_eq!(home.live().iter().filter(|row| row["state"] == "creating").count(), 0);
}

#[test]
fn a_build() {
    requires!(docker);
    let home = Home::new().at(docker());
    let context = tempfile::tempdir().expect("a directory");
    let dockerfile = format!("FROM {TEST_IMAGE}\nRUN sleep 903.4\n");
    std::fs::write(context.path().join("Dockerfile"), dockerfile).expect("ours");
    let directory = context.path().to_str().expect("UTF-8").to_owned();
    let tag = "localhost/given-up:cancel";
    let input = json!({"context": directory, "tag": tag, "backend": "docker"});
    let words = ["image", "build", "--backend", "docker", "-t", tag, &directory];
    let work = Work {
        path: "/v1/images/build".to_owned(),
        body: input.clone(),
        tool: "image_build",
        arguments: input,
        words: words.map(str::to_owned).to_vec(),
    };
    let steps = || {
        let listed = docker().document("/containers/json");
        listed.as_array().into_iter().flatten().any(|one| one["Command"].to_string().contains("sleep 903.4"))
    };

    // No model builds images.
    let doors = [Door::Interrupt, Door::Delete, Door::Disconnect, Door::Deadline];
    expect_ends(&doors, &home, &work, steps, || !steps());
}
