//! `run -d`, and ports that are open as long as their call.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

use coracle_tests::{Home, SOON, eventually, requires};

/// Answers each connection to this port with one line.
fn server(port: u16) -> String {
    format!(
        "import socket\nserver = socket.create_server(('127.0.0.1', {port}))\nprint('up', flush=True)\n\
         while True:\n    stream = server.accept()[0]; stream.sendall(b'served\\n'); stream.close()\n"
    )
}

fn free_port() -> u16 {
    let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    free.expect("a port can be had").port()
}

fn ask(port: u16) -> Option<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    let mut answer = String::new();
    stream.write_all(b"hi").ok()?;
    stream.read_to_string(&mut answer).ok()?;
    Some(answer)
}

#[test]
fn a_detached_run_stays_and_prints_the_id_of_its_sandbox() {
    requires!(native);
    let home = Home::new();
    let script = "echo started; echo $0 $A $(pwd); sleep 1000";

    let started =
        home.call(["run", "-d", "--name", "job", "-e", "A=b", "-w", "/tmp", "sh", "-c", script, "x"]);
    let id = started.succeed().text().trim().to_owned();

    assert_eq!(home.live()[0]["sandbox_id"], id);
    let printed = || home.call(["logs", "job"]).succeed().text().to_owned();
    assert!(eventually(SOON, || printed() == "started\nx b /tmp\n").is_some(), "{}", printed());
    let told = home.call(["exec", "job", "-d", "--json", "sleep", "1000"]).succeed().json();
    assert_eq!((&told["sandbox_id"], &told["status"]), (&id.as_str().into(), &"running".into()), "{told}");
    assert!(told["duration_ms"].is_u64() && told["outcome"].is_null(), "{told}");
    home.call(["stop", "job", "--grace", "0"]).succeed();
    home.call(["wait", "job"]).run().expect_code(143);
    home.call(["close", "job"]).succeed();
    assert_eq!(
        home.call(["logs", &id]).succeed().text(),
        "started\nx b /tmp\n",
        "output is kept for a while"
    );
}

#[test]
fn a_detached_run_that_cannot_start_leaves_nothing() {
    requires!(native);
    let home = Home::new();

    home.call(["run", "-d", "--", "no-such-program"]).run().expect_code(127);
    home.call(["run", "-d", "-i", "cat"]).run().expect_code(125);

    assert!(home.live().is_empty());
}

#[test]
fn a_detached_run_with_rm_is_gone_soon_after_its_command() {
    requires!(native);
    let home = Home::new();

    let told = home.call(["run", "-d", "--rm", "--json", "sleep", "1000"]).succeed().json();

    let shown = home.call(["show", told["sandbox_id"].as_str().expect("an id"), "--json"]).succeed().json();
    assert_eq!(shown["limits"]["timeout_seconds"], 60, "{shown}");
    assert_eq!(told["exec_id"], "main");
}

#[test]
fn a_port_is_open_while_its_run_lasts() {
    requires!(native);
    let home = Home::new();
    let port = free_port();
    let ports = format!("{port}:8000");

    let run = home.call(["run", "-p", &ports, "python3", "-c", &server(8000)]).start();
    run.wait_for(|output| output.starts_with(b"up"));

    assert_eq!(ask(port).as_deref(), Some("served\n"));
    let told = String::from_utf8_lossy(&run.stderr()).into_owned();
    assert!(told.contains(&format!("127.0.0.1:{port}")), "{told}");
    run.signal(rustix::process::Signal::TERM);
    run.finish();
    assert_eq!(ask(port), None);
}

#[test]
fn a_port_of_a_detached_run_is_refused_with_a_hint() {
    requires!(native);
    let home = Home::new();

    for line in [&["run", "-d", "-p", "8080:80", "--json", "true"][..], &["open", "-p", "8080:80", "--json"]]
    {
        let error = home.call(line).run().error();
        assert!(error["hint"].as_str().is_some_and(|hint| hint.contains("forward SBX 8080:80")), "{error}");
    }
    for ports in ["0.0.0.0:8080:80", "http", "8080:0"] {
        home.call(["run", "-p", ports, "true"]).run().expect_code(125);
    }
    assert!(home.live().is_empty());
}

#[test]
fn asking_again_under_an_id_finds_the_command_however_it_is_read() {
    requires!(native);
    let home = Home::new();
    let sandbox = home.open();
    let words =
        ["--id", "once", "--timeout", "60s", "--keep-background", "--", "sh", "-c", "echo line >> note"];
    let exec = |home: &Home, flags: &[&str]| {
        home.call(["exec", &sandbox].iter().chain(flags).chain(&words)).succeed();
    };

    exec(&home, &["--detach"]);
    exec(&home, &[]);
    exec(&home, &["--json"]);
    // The settings are no part of a command either.
    exec(&home.env("CORACLE_EXEC_TIMEOUT_MAX", "3000s"), &[]);
}
