//! The network of a sandbox, on the command line: it reaches allowed hosts, and denials name the others.
//!
//! The servers are the machine's own, which a sandbox reaches only if the operator allows it. `internet.rs` tests the
//! internet.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use coracle_tests::{Home, SOON, Started, eventually, requires};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

const PATIENCE: Duration = SOON;

/// A home whose operator lets sandboxes name the loopback interface.
fn home() -> Home {
    permitting(Home::new())
}

fn permitting(home: Home) -> Home {
    std::fs::write(home.path().join("config.toml"), "[network]\nprivate = ['127.0.0.0/8', '::1']\n")
        .expect("the home is ours");
    home
}

/// Answers every request with the same word, one for each connection.
fn web() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let port = listener.local_addr().expect("it is bound").port();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || answer(&stream));
        }
    });
    port
}

fn answer(mut stream: &TcpStream) {
    let mut line = String::new();
    let mut reader = BufReader::new(stream);
    while reader.read_line(&mut line).is_ok_and(|length| length > 2) {}
    let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nserved");
    let _ = stream.shutdown(std::net::Shutdown::Write);
}

/// Says a word first and then repeats what it hears.
fn echo() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let port = listener.local_addr().expect("it is bound").port();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            std::thread::spawn(move || {
                let _ = stream.write_all(b"welcome\n");
                let mut reader = stream.try_clone().expect("a socket");
                let _ = std::io::copy(&mut reader, &mut stream);
            });
        }
    });
    port
}

fn denied(result: &Value) -> Vec<String> {
    let all = result["egress_denied"].as_array().cloned().unwrap_or_default();
    all.iter()
        .map(|denial| {
            let text = |name: &str| denial[name].as_str().unwrap_or_default().to_owned();
            format!("{}:{} {}", text("host"), denial["port"], text("reason"))
        })
        .collect()
}

/// The keeper's process, by the lock it holds.
fn keeper(home: &Home, sandbox: &str) -> Pid {
    let lock = home.path().join("keepers").join(sandbox).join("lock");
    let pid = std::fs::read_to_string(lock).expect("a keeper wrote who it is");
    Pid::from_raw(pid.parse().expect("a number")).expect("a process")
}

#[test]
fn what_is_allowed_is_reached_and_the_rest_is_named_in_the_result() {
    requires!(native);
    let home = home();
    let port = web();
    let network = format!("allow=127.0.0.1:{port},ok.test");
    let script = format!(
        "curl -sS --noproxy '' http://127.0.0.1:{port}/; echo; curl -s --noproxy '' http://127.0.0.1:1/; \
         curl -s https://evil.test/; curl -s --socks5-hostname 127.0.0.1:3128 http://socks.test/; \
         curl -s --noproxy '*' --max-time 3 http://direct.test/; true"
    );

    let result =
        home.call(["run", "--json", "--network", &network, "--", "sh", "-c", &script]).succeed().json();

    let said = result["stdout"].as_str().expect("text");
    assert!(said.starts_with("served\n"), "{said}");
    assert!(said.contains("127.0.0.1:1 (not allowed)"), "{said}");
    assert_eq!(
        denied(&result),
        ["127.0.0.1:1 not_allowed", "evil.test:443 not_allowed", "socks.test:80 not_allowed"]
    );
}

#[test]
fn without_json_the_denied_are_said_once_on_stderr() {
    requires!(native);
    let home = home();

    let twice = "curl -s http://evil.test/; curl -s http://evil.test/; true";
    let ran = home.call(["run", "--network", "allow=ok.test", "--", "sh", "-c", twice]).succeed();

    assert_eq!(ran.stderr.matches("denied to evil.test:80 (not allowed)").count(), 1, "{ran}");
    let page =
        "evil.test:80 (not allowed): allow it with `--network allow=evil.test` when the sandbox is made";
    assert!(ran.text().contains(page), "{ran}");
}

#[test]
fn a_name_without_an_address_was_not_denied() {
    requires!(native);
    let home = home();

    let curl = ["run", "--network", "allow=missing.invalid", "--", "curl", "-s", "http://missing.invalid/"];
    let ran = home.call(curl).succeed();

    let told = "could not reach missing.invalid:80: the name has no address";
    assert!(ran.stderr.contains(&format!("note: {told}\n")), "{ran}");
    assert_eq!(ran.text(), format!("coracle: {told}\n"));
}

#[test]
fn waiting_for_a_detached_command_names_what_it_was_denied() {
    requires!(native);
    let home = home();
    let sandbox = home.open_with(&["--network", "allow=ok.test"]);
    home.exec(&sandbox, ["curl", "-s", "http://before.test/"]).succeed();
    // Longer than the slack that two clocks have.
    std::thread::sleep(Duration::from_millis(100));
    let curl = ["exec", &sandbox, "--detach", "--id", "late", "--", "curl", "-s", "http://evil.test/"];
    home.call(curl).succeed();

    let waited = home.call(["wait", &sandbox, "late", "--json"]).succeed().json();

    assert_eq!(denied(&waited), ["evil.test:80 not_allowed"], "{waited}");
}

#[test]
fn a_client_that_knows_no_proxy_finds_a_named_host() {
    requires!(native);
    let home = home();
    let port = echo();
    // `localhost` stands for any name that leads to the loopback interface; inside it is taken, so by its listener.
    let network = format!("allow=localhost:{port},127.0.0.1:{port},[::1]:{port}");
    let client = format!(
        "import socket
s = socket.create_connection(('127.77.0.1', {port}))
f = s.makefile('rw')
print(f.readline().strip(), flush=True)
f.write('over\\n'); f.flush()
print(f.readline().strip())"
    );

    let ran = home.call(["run", "--network", &network, "--", "python3", "-c", &client]).succeed();

    assert_eq!(ran.text(), "welcome\nover\n");
}

#[test]
fn named_hosts_stand_in_etc_hosts_and_the_proxy_in_the_environment() {
    requires!(native);
    let home = home();
    let script = "getent hosts ok.test; echo $https_proxy; cat /etc/resolv.conf 2>/dev/null; grep localhost /etc/hosts | wc -l";

    let given = home.call(["run", "--network", "allow=ok.test,*.x.test", "--", "sh", "-c", script]).succeed();
    let none = home.call(["run", "--", "sh", "-c", "env | grep -ic proxy; cat /proc/net/tcp | wc -l"]).run();

    assert_eq!(given.text(), "127.77.0.1      ok.test\nhttp://127.0.0.1:3128\n2\n");
    assert_eq!(none.text(), "0\n1\n", "without a network nothing is bound or set");
}

#[test]
fn private_addresses_are_for_the_operator_to_allow() {
    requires!(native);
    let home = Home::new();

    for network in
        ["allow=127.0.0.1:80", "allow=169.254.169.254", "allow=10.0.0.0/8", "allow=[fd00::]/8", "host"]
    {
        let refused = home.call(["open", "--json", "--network", network]).run().expect_code(125).json();
        assert_eq!(refused["error"]["kind"], "invalid", "{network}: {refused}");
    }
    let names = "curl -s http://localhost/ --noproxy ''; curl -s http://169.254.169.254/latest/; \
                 curl -s http://[::ffff:a9fe:a9fe]/; curl -s http://2852039166/; true";
    let open = home.call(["run", "--json", "--network", "open", "--", "sh", "-c", names]).succeed().json();
    let denied = denied(&open);
    assert_eq!(denied[..2], ["localhost:80 not_public", "169.254.169.254:80 not_public"], "{denied:?}");
    assert!(
        denied.iter().all(|denial| denial.contains("not_public") || denial.contains("invalid_name")),
        "{denied:?}"
    );
}

/// Opens a sandbox that may reach a port of this test, and starts a client there that says when its connection has ended.
fn connected(home: &Home, port: u16) -> (String, Started) {
    let sandbox =
        home.open_with(&["--network", &format!("allow=localhost:{port},127.0.0.1:{port},[::1]:{port}")]);
    let client = format!(
        "import socket
s = socket.create_connection(('127.77.0.1', {port}))
print(s.recv(99).decode(), end='', flush=True)
print('ended', s.recv(99))"
    );
    let call = home.exec(&sandbox, ["python3", "-c", &client]).start();
    call.wait_for(|said| said == b"welcome\n");
    (sandbox, call)
}

#[test]
fn a_killed_keeper_ends_every_connection_and_the_next_exec_has_another() {
    requires!(native);
    let home = home();
    let port = echo();
    let (sandbox, call) = connected(&home, port);

    kill_process(keeper(&home, &sandbox), Signal::KILL).expect("it is alive");

    let ended = call.finish().expect_code(0);
    assert_eq!(ended.text(), "welcome\nended b''\n");
    let short = format!("import socket; print(socket.create_connection(('127.77.0.1', {port})).recv(99))");
    let again = home.exec(&sandbox, ["python3", "-c", &short]).succeed();
    assert_eq!(again.text(), "b'welcome\\n'\n");
}

/// Returns the next connection, which comes soon or never.
#[track_caller]
fn accepted(listener: &TcpListener) -> TcpStream {
    let mut stream = None;
    listener.set_nonblocking(true).expect("it is ours");
    eventually(PATIENCE, || {
        stream = listener.accept().ok().map(|(stream, _)| stream);
        stream.is_some()
    });
    stream.expect("it connects")
}

/// A call waits for the command and replaces the keeper: the command's later connections work.
#[test]
fn a_keeper_that_is_killed_is_replaced_while_a_command_runs() {
    requires!(native);
    let home = home();
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let port = listener.local_addr().expect("it is bound").port();
    let sandbox =
        home.open_with(&["--network", &format!("allow=localhost:{port},127.0.0.1:{port},[::1]:{port}")]);
    // Its first connection ends with the keeper; then it tries until another one comes about.
    let client = format!(
        "
import socket, time
socket.create_connection(('127.77.0.1', {port})).recv(99)
for _ in range(300):
    try:
        if socket.create_connection(('127.77.0.1', {port}), 5).recv(99): print('again'); break
    except OSError: pass
    time.sleep(0.1)"
    );
    let detached = ["exec", &sandbox, "--detach", "--id", "apart", "--", "python3", "-c", &client];

    for command in [
        &["exec", &sandbox, "--", "python3", "-c", &client][..],
        &["exec", &sandbox, "--json", "--", "python3", "-c", &client],
        &["wait", &sandbox, "apart", "--json"],
    ] {
        let waits = command[0] == "wait";
        waits.then(|| home.call(detached).succeed());
        let call = home.call(command).within(Duration::from_secs(60)).start();
        let first = accepted(&listener);
        kill_process(keeper(&home, &sandbox), Signal::KILL).expect("it is alive");
        let mut second = accepted(&listener);
        second.write_all(b"welcome\n").expect("it reads");
        drop(first);

        let ended = call.finish().expect_code(0);
        let logs = waits.then(|| home.call(["logs", &sandbox, "apart"]).succeed());
        assert!(logs.as_ref().unwrap_or(&ended).text().contains("again"), "{ended}");
    }
}

#[test]
fn narrowing_cuts_what_runs_and_outlives_a_keeper() {
    requires!(native);
    let home = home();
    let port = echo();
    let (sandbox, call) = connected(&home, port);

    let narrowed = home.call(["network", &sandbox, "none", "--json"]).succeed().json();

    assert_eq!(narrowed["network"], "none");
    assert_eq!(call.finish().expect_code(0).text(), "welcome\nended b''\n");
    kill_process(keeper(&home, &sandbox), Signal::KILL).expect("it is alive");
    let curl = ["curl", "-s", "--noproxy", "", &format!("http://127.0.0.1:{port}/")];
    assert!(home.exec(&sandbox, curl).succeed().text().contains("not allowed"));
    let wider = home.call(["network", &sandbox, "open", "--json"]).run().expect_code(125).json();
    assert_eq!(wider["error"]["kind"], "invalid");
    let stranger = home.call(["network", &sandbox, "none", "--run", "run_other", "--json"]).run().json();
    assert_eq!(stranger["error"]["kind"], "not_owner");
    let shown = home.call(["show", &sandbox, "--json"]).succeed().json();
    assert_eq!(shown["network"], "none");
    assert_eq!(shown["egress"]["denied"], json!(1));
}

#[test]
fn a_narrowing_that_was_cut_short_holds_from_the_next_exec_on() {
    requires!(native);
    let home = home();
    let port = web();
    let sandbox = home.open_with(&["--network", &format!("allow=127.0.0.1:{port}")]);
    let url = format!("http://127.0.0.1:{port}/");
    let curl = ["curl", "-s", "--noproxy", "", &url];
    assert_eq!(home.exec(&sandbox, curl).succeed().text(), "served");

    let cut = home.call(["network", &sandbox, "none"]).env("CORACLE_CRASH_AT", "network.row.after").run();

    assert!(cut.was_killed(), "{cut}");
    assert!(home.exec(&sandbox, curl).succeed().text().contains("not allowed"));
}

#[test]
fn a_port_of_a_sandbox_is_reached_from_here_and_from_here_alone() {
    requires!(native);
    let home = Home::new();
    let sandbox = home.open();
    let serve = "import http.server, socketserver
class H(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers(); self.wfile.write(b'inside')
    def log_message(self, *a): pass
s = socketserver.ThreadingTCPServer(('127.0.0.1', 8123), H)
print('ready', flush=True)
s.serve_forever()";
    let server = home.exec(&sandbox, ["python3", "-c", serve]).start();
    server.wait_for(|said| said == b"ready\n");

    let forward = home.call(["forward", &sandbox, "0:8123", "--json"]).start();
    forward.wait_for(|said| said.ends_with(b"\n"));
    let at: Value = serde_json::from_slice(&forward.stdout()).expect("JSON");
    let port = u16::try_from(at["port"].as_u64().expect("a port")).expect("a port");

    assert_eq!((&at["address"], &at["sandbox_port"]), (&json!("127.0.0.1"), &json!(8123)));
    assert!(get(port).ends_with("inside"), "{}", get(port));
    let everywhere = std::fs::read_to_string("/proc/net/tcp").expect("a table");
    let bound = format!("{port:04X}");
    let listening: Vec<_> =
        everywhere.lines().filter(|line| line.contains(&format!(":{bound} 00000000:0000 0A"))).collect();
    assert!(listening.len() == 1 && listening[0].contains("0100007F"), "{listening:?}");
    let stranger = home.call(["forward", &sandbox, "8123", "--run", "run_other", "--json"]).run();
    assert_eq!(stranger.expect_code(125).json()["error"]["kind"], "not_owner");
    forward.signal(Signal::INT);
    forward.finish();
    home.call(["close", &sandbox]).succeed();
    server.finish();
}

fn get(port: u16) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("it is forwarded");
    stream.write_all(b"GET / HTTP/1.0\r\n\r\n").expect("it listens");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("an answer");
    text
}

#[test]
fn a_transfer_ends_what_is_forwarded() {
    requires!(native);
    let home = Home::new();
    let sandbox = home.open_with(&["--run", "run_a"]);
    let serve = "import socket
s = socket.create_server(('127.0.0.1', 8124))
print('ready', flush=True)
c, _ = s.accept()
c.sendall(b'hello')
c.recv(1)";
    let server = home.call(["exec", &sandbox, "--run", "run_a", "--", "python3", "-c", serve]).start();
    server.wait_for(|said| said == b"ready\n");
    let forward = home.call(["forward", &sandbox, "0:8124", "--run", "run_a"]).start();
    forward.wait_for(|said| said.ends_with(b"\n"));
    let address = String::from_utf8(forward.stdout()).expect("text");
    let mut stream = TcpStream::connect(address.trim()).expect("it is forwarded");
    let mut word = [0; 5];
    stream.read_exact(&mut word).expect("it is carried");

    home.call(["transfer", &sandbox, "--to", "run_b", "--running", "keep", "--run", "run_a"]).succeed();

    stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
    assert_eq!(stream.read(&mut word).expect("its end"), 0);
    forward.signal(Signal::INT);
    forward.finish();
    home.call(["close", &sandbox, "--run", "run_b"]).succeed();
    server.finish();
}

#[test]
fn an_ordinary_user_has_a_network_too() {
    requires!(native);
    let home = permitting(Home::ordinary());
    let port = web();
    let url = format!("http://127.0.0.1:{port}/");
    let network = format!("allow=127.0.0.1:{port},ok.test");

    let ran = home.call(["run", "--network", &network, "--", "curl", "-s", "--noproxy", "", &url]).succeed();

    assert_eq!(ran.text(), "served");
}

#[test]
fn a_keeper_goes_with_its_sandbox_and_holds_next_to_nothing() {
    requires!(native);
    let home = home();
    let sandbox = home.open_with(&["--network", "allow=ok.test"]);
    let pid = keeper(&home, &sandbox).as_raw_nonzero();
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("it is alive");
    let field =
        |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default().trim();

    assert_eq!(
        (field("CapEff:"), field("CapBnd:"), field("NoNewPrivs:")),
        ("0000000000000000", "0000000000000000", "1")
    );
    assert_eq!(
        std::fs::read_link(format!("/proc/{pid}/cwd")).expect("it is ours"),
        std::path::Path::new("/")
    );
    // As the idle switch does: the keeper gets no message.
    let guest = Pid::from_raw(home.census().guests()[0] as i32).expect("a process");
    kill_process(guest, Signal::KILL).expect("it is alive");
    let gone = eventually(PATIENCE, || !std::path::Path::new(&format!("/proc/{pid}")).exists());
    assert!(gone.is_some(), "the keeper outlived its sandbox");
}
