//! WebSockets: output one way, input, signals and terminal size the other.

use std::io::{Read, Write};
use std::time::{Duration, Instant};

use coracle_tests::http::{Request, Stream};
use coracle_tests::{Daemon, Home, eventually, requires};
use serde_json::{Value, json};

/// The answer to the key below, by RFC 6455.
const ACCEPT: &str = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=";
const TEXT: u8 = 1;
const BINARY: u8 = 2;
const CLOSE: u8 = 8;

/// A WebSocket whose every frame is written by hand.
struct Socket(Box<dyn Stream>);

impl Socket {
    fn open(daemon: &Daemon, sandbox: &str, exec: &str, query: &str) -> Self {
        let mut stream = daemon.unix().connect().expect("connects");
        let head = format!(
            "GET /v1/sandboxes/{sandbox}/execs/{exec}/attach?{query} HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\n\
             Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).expect("writes");
        let mut answer = Vec::new();
        while !answer.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).expect("a head");
            answer.push(byte[0]);
        }
        let answer = String::from_utf8_lossy(&answer).into_owned();
        assert!(answer.starts_with("HTTP/1.1 101") && answer.contains(ACCEPT), "{answer}");
        Self(stream)
    }

    fn say(&mut self, opcode: u8, payload: &[u8]) {
        self.try_say(opcode, payload).expect("writes");
    }

    /// Does the same where the other side may have hung up.
    fn try_say(&mut self, opcode: u8, payload: &[u8]) -> std::io::Result<()> {
        let length = u16::try_from(payload.len()).expect("a short message");
        let mut frame = vec![0x80 | opcode];
        match u8::try_from(length).ok().filter(|length| *length < 126) {
            Some(length) => frame.push(0x80 | length),
            None => frame.extend([&[0x80 | 126][..], &length.to_be_bytes()].concat()),
        }
        frame.extend([0; 4]);
        frame.extend_from_slice(payload);
        self.0.write_all(&frame)
    }

    fn tell(&mut self, message: &Value) {
        self.say(TEXT, message.to_string().as_bytes());
    }

    /// Returns the opcode and payload of the next frame that is no ping.
    fn hear(&mut self) -> (u8, Vec<u8>) {
        loop {
            let mut head = [0; 2];
            self.0.read_exact(&mut head).expect("a frame");
            let length = match head[1] {
                126 => {
                    let mut length = [0; 2];
                    self.0.read_exact(&mut length).expect("a length");
                    usize::from(u16::from_be_bytes(length))
                }
                short => usize::from(short),
            };
            let mut payload = vec![0; length];
            self.0.read_exact(&mut payload).expect("a payload");
            match head[0] & 0x0f {
                9 => {}
                opcode => return (opcode, payload),
            }
        }
    }

    /// Reads until a message of this type comes; returns the output up to there, and the message.
    fn until(&mut self, kind: &str) -> (String, Value) {
        let mut output = String::new();
        loop {
            let (opcode, payload) = self.hear();
            assert_eq!(opcode, TEXT, "{}", String::from_utf8_lossy(&payload));
            let message: Value = serde_json::from_slice(&payload).expect("JSON");
            output.push_str(message["text"].as_str().unwrap_or_default());
            if message["type"] == kind {
                return (output, message);
            }
        }
    }
}

fn start(daemon: &Daemon, sandbox: &str, input: Value) {
    Request::post(&format!("/v1/sandboxes/{sandbox}/execs"), &input).send(&daemon.unix()).expect(200);
}

/// Starts a command that reads nothing, called `deaf`.
fn start_deaf(daemon: &Daemon, sandbox: &str) {
    let input = json!({"cmd": ["sleep", "600"], "stream": true, "stdin_open": true, "exec_id": "deaf"});
    start(daemon, sandbox, input);
}

#[test]
fn input_goes_in_and_output_comes_out_until_the_end() {
    requires!(native);
    let home = Home::new();
    let daemon = Daemon::start(&home);
    let sandbox = home.open();
    start(&daemon, &sandbox, json!({"cmd": ["cat"], "stream": true, "stdin_open": true, "exec_id": "cat"}));
    let mut socket = Socket::open(&daemon, &sandbox, "cat", "");

    socket.tell(&json!({"type": "stdin", "data": "one\n"}));
    let (first, _) = socket.until("chunk");
    socket.say(BINARY, b"two\n");
    socket.tell(&json!({"type": "stdin", "eof": true}));
    let (rest, end) = socket.until("end");

    assert_eq!((first.as_str(), rest.as_str(), &end["exit_code"]), ("one\n", "two\n", &json!(0)));
    assert_eq!(socket.hear().0, CLOSE);
}

#[test]
fn a_terminal_has_the_size_it_is_told_and_signals_arrive() {
    requires!(native);
    let home = Home::new();
    let daemon = Daemon::start(&home);
    let sandbox = home.open();
    let script = "trap 'stty size; exit 7' INT; echo ready; while :; do sleep 0.05; done";
    let input = json!({"cmd": ["sh", "-c", script], "stream": true, "stdin_open": true, "exec_id": "shell",
        "tty": {"rows": 24, "columns": 80}});
    start(&daemon, &sandbox, input);
    let mut socket = Socket::open(&daemon, &sandbox, "shell", "");
    socket.until("chunk");

    socket.tell(&json!({"type": "resize", "rows": 50, "columns": 132}));
    socket.tell(&json!({"type": "signal", "signal": 2}));
    let (output, end) = socket.until("end");

    assert!(output.contains("50 132"), "{output}");
    assert_eq!(end["exit_code"], 7);
}

#[test]
fn a_client_that_reconnects_continues_behind_what_it_read() {
    requires!(native);
    let home = Home::new();
    let daemon = Daemon::start(&home);
    let sandbox = home.open();
    start(&daemon, &sandbox, json!({"cmd": ["cat"], "stream": true, "stdin_open": true, "exec_id": "cat"}));
    let mut first = Socket::open(&daemon, &sandbox, "cat", "");
    first.tell(&json!({"type": "stdin", "data": "one\n"}));
    let (_, read) = first.until("chunk");
    drop(first);

    let mut second = Socket::open(&daemon, &sandbox, "cat", &format!("since_seq={}", read["seq"]));
    second.tell(&json!({"type": "stdin", "data": "two\n", "eof": true}));
    let (rest, _) = second.until("end");
    let (all, _) = Socket::open(&daemon, &sandbox, "cat", "since_seq=0").until("end");

    assert_eq!((rest.as_str(), all.as_str()), ("two\n", "one\ntwo\n"));
}

#[test]
fn a_terminal_is_hung_up_with_the_client_that_attends_it_and_with_no_other() {
    requires!(native);
    let home = Home::new();
    let daemon = Daemon::start(&home);
    let sandbox = home.open();
    for exec in ["attended", "watched"] {
        let script = "trap 'exit 9' HUP; echo ready; while :; do sleep 0.05; done";
        let input = json!({"cmd": ["sh", "-c", script], "stream": true, "stdin_open": true, "exec_id": exec,
            "tty": {"rows": 24, "columns": 80}});
        start(&daemon, &sandbox, input);
    }

    for (exec, query) in [("watched", "attend=false"), ("attended", "attend=true")] {
        let mut socket = Socket::open(&daemon, &sandbox, exec, query);
        socket.until("chunk");
        // By now the daemon waits for more, most likely. That wait must not put off the end.
        std::thread::sleep(Duration::from_millis(300));
    }

    let wait = |exec: &str| format!("/v1/sandboxes/{sandbox}/execs/{exec}/wait");
    let began = Instant::now();
    let ended = Request::get(&wait("attended")).send(&daemon.unix()).expect(200).json();
    assert_eq!(ended["exit_code"], 9, "{ended}");
    assert!(began.elapsed() < Duration::from_secs(10), "not only when a wait at the guest is over");
    let shown = Request::get(&format!("/v1/sandboxes/{sandbox}")).send(&daemon.unix()).expect(200).json();
    let execs = shown["execs"].as_array().expect("a list");
    let watched = execs.iter().find(|exec| exec["exec_id"] == "watched");
    assert_eq!(watched.map(|exec| &exec["status"]), Some(&json!("running")), "{shown}");
}

#[test]
fn nonsense_ends_the_connection_and_not_the_command() {
    requires!(native);
    let home = Home::new();
    let daemon = Daemon::start(&home);
    let sandbox = home.open();
    start(&daemon, &sandbox, json!({"cmd": ["sleep", "60"], "stream": true, "exec_id": "sleeper"}));

    for nonsense in ["{", "[]", r#"{"type": "dance"}"#, r#"{"type": "stdin", "extra": 1}"#] {
        let mut socket = Socket::open(&daemon, &sandbox, "sleeper", "");
        socket.say(TEXT, nonsense.as_bytes());
        assert_eq!(socket.until("error").1["error"]["kind"], "invalid", "{nonsense}");
        assert_eq!(socket.hear().0, CLOSE, "{nonsense}");
    }
    let mut socket = Socket::open(&daemon, &sandbox, "sleeper", "");
    // Larger than any message may be: the frame's head alone is enough.
    socket.0.write_all(&[0x81, 0xff, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0]).expect("writes");
    let mut rest = Vec::new();
    let _ = socket.0.read_to_end(&mut rest);

    let shown = Request::get(&format!("/v1/sandboxes/{sandbox}")).send(&daemon.unix()).expect(200).json();
    assert_eq!(shown["execs"][0]["status"], "running");
    Socket::open(&daemon, &sandbox, "sleeper", "").tell(&json!({"type": "stop"}));
    let waited = Request::get(&format!("/v1/sandboxes/{sandbox}/execs/sleeper/wait")).send(&daemon.unix());
    assert_eq!(waited.expect(200).json()["outcome"]["kind"], "stopped");
}

/// A client that is gone leaves no thread behind, even where the command reads nothing of what it sent.
#[test]
fn a_client_that_leaves_while_its_input_waits_holds_nothing() {
    requires!(native);
    let home = Home::new();
    let daemon = Daemon::start(&home);
    let sandbox = home.open();
    start_deaf(&daemon, &sandbox);
    let before = threads(daemon.pid());

    for _ in 0..20 {
        let mut socket = Socket::open(&daemon, &sandbox, "deaf", "");
        // More than the pipe takes, and less than makes us wait.
        (0..20).for_each(|_| socket.say(BINARY, &[b'x'; 4096]));
    }

    let gone = eventually(Duration::from_secs(40), || threads(daemon.pid()) <= before + 4);
    assert!(gone.is_some(), "{before} threads before, {} now", threads(daemon.pid()));
}

/// The daemon stops, signals and resizes a command that reads no input.
#[test]
fn orders_overtake_input_that_is_not_read() {
    requires!(native);
    let home = Home::new();
    let daemon = Daemon::start(&home);
    let sandbox = home.open();
    let script = "trap 'echo heard; exit 7' USR1; echo ready; while :; do sleep 0.05; done";
    for exec in ["signalled", "stopped"] {
        let input = json!({"cmd": ["sh", "-c", script], "stream": true, "stdin_open": true, "exec_id": exec});
        start(&daemon, &sandbox, input);
    }
    // Far more than a pipe takes.
    let deaf = |exec: &str| {
        let mut socket = Socket::open(&daemon, &sandbox, exec, "");
        socket.until("chunk");
        (0..64).for_each(|_| socket.say(BINARY, &[b'x'; 65_000]));
        socket
    };

    let mut signalled = deaf("signalled");
    signalled.tell(&json!({"type": "signal", "signal": 10}));
    let mut stopped = deaf("stopped");
    stopped.tell(&json!({"type": "stop"}));

    let (output, end) = signalled.until("end");
    assert!(output.ends_with("heard\n"), "{output}");
    assert_eq!(end["exit_code"], 7);
    assert_eq!(stopped.until("end").1["outcome"]["kind"], "stopped");
    assert_eq!((signalled.hear().0, stopped.hear().0), (CLOSE, CLOSE));
}

/// Returns the code a close frame carries; frames before it are skipped.
fn closed_with(socket: &mut Socket) -> u16 {
    loop {
        if let (CLOSE, code) = socket.hear() {
            return u16::from_be_bytes([code[0], code[1]]);
        }
    }
}

#[test]
fn every_end_carries_a_close_frame() {
    requires!(native);
    let home = Home::new();
    let daemon = Daemon::start(&home);
    let sandbox = home.open();
    for exec in ["ended", "sleeper"] {
        let input = json!({"cmd": ["sleep", if exec == "ended" { "1" } else { "600" }], "stream": true,
            "stdin_open": true, "exec_id": exec});
        start(&daemon, &sandbox, input);
    }
    let open = |exec: &str| Socket::open(&daemon, &sandbox, exec, "");

    let mut ended = open("ended");
    assert_eq!(closed_with(&mut ended), 1000, "the command's end");
    let mut nonsense = open("sleeper");
    nonsense.say(TEXT, b"{");
    assert_eq!(closed_with(&mut nonsense), 1008, "a message that is none");
    let mut large = open("sleeper");
    large.0.write_all(&[0x81, 0xff, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0]).expect("writes");
    assert_eq!(closed_with(&mut large), 1002, "a message that is too long");
    let mut polite = open("sleeper");
    polite.say(CLOSE, &1000_u16.to_be_bytes());
    assert_eq!(closed_with(&mut polite), 1000, "the client's own wish");
    let (mut closed, mut last) = (open("sleeper"), open("sleeper"));
    // Another end while unread input waits: it must not make the kernel reset the connection.
    (0..32).for_each(|_| last.say(BINARY, &[b'x'; 65_000]));
    drop(closed.0.flush());
    let daemon = daemon.end();

    assert_eq!((closed_with(&mut closed), closed_with(&mut last)), (1001, 1001), "{daemon}");
}

fn threads(pid: u32) -> usize {
    std::fs::read_dir(format!("/proc/{pid}/task")).expect("the daemon runs").count()
}

/// Input that waits for commands that do not read is paid for like every other body, so one client cannot fill the daemon.
#[test]
fn unread_input_is_bounded_for_all_sockets_together() {
    requires!(native);
    let home = Home::new();
    let daemon = Daemon::start(&home);
    let sandbox = home.open();
    start_deaf(&daemon, &sandbox);

    // Each leaves nearly as much behind as one may; seventeen of them are more than all may.
    let mut sockets: Vec<Socket> = (0..20).map(|_| Socket::open(&daemon, &sandbox, "deaf", "")).collect();
    for socket in &mut sockets {
        // One that was refused is closed after a while.
        let _ = (0..90).try_for_each(|_| socket.try_say(BINARY, &[b'x'; 65_000]));
    }
    let (opcode, told) = sockets[19].hear();

    assert_eq!(opcode, TEXT);
    assert!(String::from_utf8_lossy(&told).contains("limit_exceeded"), "{}", String::from_utf8_lossy(&told));
}
