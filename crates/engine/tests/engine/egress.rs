//! A keeper between a sandbox in memory and real servers on the loopback interface.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;

use coracle_core::network::NetworkPolicy;
use coracle_core::{Kind, Policy, SandboxId};
use serde_json::{Value, json};

use crate::world::World;

/// The number of the proxy's listener, and of the first host's.
const PROXY: u32 = 0;
const FIRST_HOST: u32 = 1;

/// A world whose operator lets the loopback interface be named.
fn world() -> World {
    capped(256)
}

fn capped(connections: usize) -> World {
    let mut network = NetworkPolicy {
        private: vec!["127.0.0.0/8".parse().expect("a network"), "[::1]/128".parse().expect("one, too")],
        ..NetworkPolicy::default()
    };
    network.caps.connections = connections;
    World::ruled_by(Policy { network, ..Policy::default() })
}

fn server() -> (TcpListener, u16) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let port = listener.local_addr().expect("it is bound").port();
    (listener, port)
}

/// Opens a sandbox that may reach this port of the machine, by address and as `localhost`.
fn sandbox_for(world: &World, port: u16) -> SandboxId {
    world.open_with_network("run_a", &format!("allow=127.0.0.1:{port},localhost:{port},[::1]:{port}"))
}

fn all(mut from: impl Read) -> String {
    let mut text = Vec::new();
    // One that is cut ends as well.
    let _ = from.read_to_end(&mut text);
    String::from_utf8_lossy(&text).into_owned()
}

fn say(mut to: impl Write, text: &str) {
    to.write_all(text.as_bytes()).expect("somebody listens");
}

/// Reads lines up to the empty one.
fn head(from: &mut impl BufRead) -> String {
    let mut text = String::new();
    while !text.ends_with("\r\n\r\n") {
        assert!(from.read_line(&mut text).expect("a line") > 0, "it ended: {text}");
    }
    text
}

fn denials(world: &World, id: &SandboxId) -> Vec<String> {
    let shown = world.ok("run_a", "sandbox_get", json!({"sandbox_id": id}));
    let last = shown["egress"]["last"].as_array().expect("a list").clone();
    last.iter()
        .map(|entry| format!("{}:{} {}", text(&entry["host"]), entry["port"], text(&entry["reason"])))
        .collect()
}

fn text(value: &Value) -> &str {
    value.as_str().expect("text")
}

#[test]
fn one_request_is_passed_on_and_what_follows_it_is_not() {
    let world = world();
    let (listener, port) = server();
    let id = sandbox_for(&world, port);

    let client = world.backend.reach_out(&id, PROXY);
    say(
        &client,
        &format!(
            "POST http://127.0.0.1:{port}/a HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Length: 2\r\n\r\nhiGET /smuggled HTTP/1.1\r\n\r\n"
        ),
    );
    let (served, _) = listener.accept().expect("the keeper comes");
    let mut reader = BufReader::new(&served);
    let request = head(&mut reader);
    let mut body = [0; 2];
    reader.read_exact(&mut body).expect("the body");
    say(&served, "HTTP/1.1 200 OK\r\n\r\nanswer");
    served.shutdown(std::net::Shutdown::Write).expect("open");

    assert_eq!(all(&client), "HTTP/1.1 200 OK\r\n\r\nanswer");
    assert!(
        request.starts_with("POST /a HTTP/1.1\r\n") && request.contains("Connection: close\r\n"),
        "{request}"
    );
    assert_eq!((&body, all(reader)), (b"hi", String::new()), "nothing behind the body goes out");
}

#[test]
fn a_server_that_speaks_first_is_heard_at_once_and_halves_close_apart() {
    let world = world();
    let (listener, port) = server();
    let id = sandbox_for(&world, port);

    let client = world.backend.reach_out(&id, FIRST_HOST);
    let (served, _) = listener.accept().expect("the keeper comes");
    say(&served, "SSH-2.0-server\r\n");
    let mut greeting = String::new();
    let mut reader = BufReader::new(&client);
    reader.read_line(&mut greeting).expect("a greeting before a word was said");
    say(&client, "SSH-2.0-client\r\n");
    client.shutdown(std::net::Shutdown::Write).expect("open");
    let heard = all(&served);
    say(&served, "bye");
    drop(served);

    assert_eq!(greeting, "SSH-2.0-server\r\n");
    assert_eq!(heard, "SSH-2.0-client\r\n");
    assert_eq!(all(reader), "bye");
    assert!(denials(&world, &id).is_empty());
}

#[test]
fn what_is_refused_is_told_and_written_down_first() {
    let world = world();
    let id = world.open_with_network("run_a", "allow=ok.test,localhost:9");

    let not_allowed = world.backend.reach_out(&id, PROXY);
    say(&not_allowed, "CONNECT evil.test:443 HTTP/1.1\r\nHost: evil.test:443\r\n\r\n");
    let told = all(&not_allowed);
    let socks = world.backend.reach_out(&id, PROXY);
    say(&socks, "\u{5}\u{1}\0");
    let mut answer = [0; 2];
    (&socks).read_exact(&mut answer).expect("a method");
    (&socks).write_all(b"\x05\x01\x00\x03\x09evil.test\x00\x50").expect("it listens");
    let refused = all(&socks);
    let private = world.backend.reach_out(&id, PROXY);
    say(&private, "CONNECT localhost:9 HTTP/1.1\r\nHost: localhost:9\r\n\r\n");
    let private = all(&private);
    let smuggled = world.backend.reach_out(&id, PROXY);
    say(&smuggled, "GET http://ok.test/ HTTP/1.1\r\nHost: evil.test\r\n\r\n");
    let smuggled = all(&smuggled);

    assert!(told.starts_with("HTTP/1.1 403") && told.contains("`--network allow=evil.test`"), "{told}");
    assert!(refused.as_bytes().starts_with(&[5, 2]), "{refused:?}");
    assert!(private.starts_with("HTTP/1.1 403"), "{private}");
    assert!(smuggled.starts_with("HTTP/1.1 403"), "{smuggled}");
    assert_eq!(
        denials(&world, &id),
        [
            "evil.test:443 not_allowed",
            "evil.test:80 not_allowed",
            "localhost:9 not_public",
            "evil.test:80 name_mismatch"
        ]
    );
}

#[test]
fn on_any_port_the_web_still_names_its_host() {
    let world = world();
    let (listener, port) = server();
    let id = sandbox_for(&world, port);
    let hello: &[u8] = b"\x16\x03\x01\x00\x3e\x01\x00\x00\x3a\x03\x03\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x13\x01\x01\x00\x00\x0f\x00\x00\x00\x0b\x00\x09\x00\x00\x06evil.t";

    let lying = world.backend.reach_out(&id, FIRST_HOST);
    let (served, _) = listener.accept().expect("the keeper comes");
    (&lying).write_all(hello).expect("it listens");
    let nothing = all(&served);
    let web = world.backend.reach_out(&id, FIRST_HOST);
    let (unserved, _) = listener.accept().expect("the keeper comes");
    say(&web, "GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n");
    let told = all(&web);

    assert_eq!((nothing.as_str(), all(&unserved).as_str()), ("", ""), "not a byte goes out");
    assert!(told.starts_with("HTTP/1.1 403"), "{told}");
    assert_eq!(
        denials(&world, &id),
        [format!("evil.t:{port} name_mismatch"), format!("evil.test:{port} name_mismatch")]
    );
}

fn joined(world: &World, listener: &TcpListener, id: &SandboxId) -> (UnixStream, TcpStream) {
    let client = world.backend.reach_out(id, FIRST_HOST);
    let (served, _) = listener.accept().expect("the keeper comes");
    say(&served, "!");
    let mut word = [0; 1];
    (&client).read_exact(&mut word).expect("it is carried");
    (client, served)
}

#[test]
fn narrowing_ends_connections_before_it_returns_and_never_widens() {
    let world = world();
    let (listener, port) = server();
    let id = sandbox_for(&world, port);
    let (client, served) = joined(&world, &listener, &id);

    let wider = world.refused("run_a", "sandbox_network", json!({"sandbox_id": id, "network": "open"}));
    let stranger = world.refused("run_b", "sandbox_network", json!({"sandbox_id": id, "network": "none"}));
    say(&client, "still here");
    let mut heard = [0; 10];
    (&served).read_exact(&mut heard).expect("it is still carried");
    world.ok("run_a", "sandbox_network", json!({"sandbox_id": id, "network": "none"}));

    assert_eq!((wider.kind, stranger.kind), (Kind::Invalid, Kind::NotOwner));
    assert_eq!((all(&client), all(&served)), (String::new(), String::new()));
    let again = world.backend.reach_out(&id, FIRST_HOST);
    assert_eq!(all(&again), "");
    assert_eq!(denials(&world, &id), [format!("localhost:{port} not_allowed")]);
    let wider = json!({"sandbox_id": id, "network": format!("allow=localhost:{port}")});
    assert_eq!(world.refused("run_a", "sandbox_network", wider).kind, Kind::Invalid);
}

#[test]
fn a_fork_has_no_more_of_the_network_than_its_parent_has_left() {
    let world = world();
    let id = world.open_with_network("run_a", "allow=ok.test,other.test");
    world.ok("run_a", "sandbox_network", json!({"sandbox_id": id, "network": "allow=ok.test"}));

    let forked = world.ok("run_a", "sandbox_fork", json!({"sandbox_id": id}));

    let child: SandboxId = serde_json::from_value(forked["sandbox_ids"][0].clone()).expect("an id");
    let shown = world.ok("run_a", "sandbox_get", json!({"sandbox_id": child}));
    assert_eq!(shown["network"], "allow=ok.test");
    let client = world.backend.reach_out(&child, PROXY);
    say(&client, "CONNECT other.test:443 HTTP/1.1\r\n\r\n");
    assert!(all(&client).starts_with("HTTP/1.1 403"));
}

#[test]
fn one_connection_too_many_is_refused_by_name_and_room_comes_back() {
    let world = capped(2);
    let (listener, port) = server();
    let id = sandbox_for(&world, port);
    let first = joined(&world, &listener, &id);
    let _second = joined(&world, &listener, &id);

    let third = world.backend.reach_out(&id, FIRST_HOST);
    assert_eq!(all(&third), "");
    first.0.shutdown(std::net::Shutdown::Both).expect("open");
    drop(first);

    assert_eq!(denials(&world, &id), [format!("localhost:{port} limit")]);
    // The end of the first is noticed by whoever carries it, at once but not before anything else.
    let room = (0..100).find_map(|_| {
        let client = world.backend.reach_out(&id, FIRST_HOST);
        listener.set_nonblocking(true).expect("a socket");
        client.set_read_timeout(Some(std::time::Duration::from_millis(50))).expect("a socket");
        let mut word = [0; 1];
        let refused = matches!((&client).read(&mut word), Ok(0));
        (!refused).then_some(())
    });
    assert!(room.is_some());
}

#[test]
fn closing_a_sandbox_ends_its_keeper_and_everything_it_carries() {
    let world = world();
    let (listener, port) = server();
    let id = sandbox_for(&world, port);
    let (_client, served) = joined(&world, &listener, &id);

    world.ok("run_a", "sandbox_close", json!({"sandbox_id": id}));

    assert_eq!(all(&served), "");
    assert_eq!(std::fs::read_dir(world.keepers.path()).expect("it is there").count(), 0);
}

#[test]
fn an_exec_finds_a_keeper_that_died_replaced() {
    let world = world();
    let (_listener, port) = server();
    let id = sandbox_for(&world, port);
    // A keeper that ended without its sandbox, as one does that is killed.
    let control = world.keepers.path().join(id.as_str()).join("control");
    let mut asked = UnixStream::connect(&control).expect("it is there");
    asked.write_all(b"end\n").expect("it listens");
    assert_eq!(all(&asked), "ok\n");

    let reply = world.exec("run_a", &id, &["echo", "hi"]);

    assert_eq!(reply["stdout"], "hi\n");
    assert_eq!(reply.get("egress_denied"), None);
    let client = world.backend.reach_out(&id, PROXY);
    say(&client, "CONNECT evil.test:1 HTTP/1.1\r\n\r\n");
    assert!(all(&client).starts_with("HTTP/1.1 403"));
}

#[test]
fn what_a_keeper_left_of_a_sandbox_nobody_knows_is_an_orphan_and_swept() {
    let world = world();
    let stray = coracle_testing::sample::sandbox();
    let directory = world.keepers.path().join(stray.as_str());
    std::fs::create_dir(&directory).expect("it is ours");
    std::fs::write(directory.join("lock"), "1").expect("it is ours");

    let found = world.engine.upkeep().orphans().expect("a look").orphans;
    let report = world.engine.upkeep().sweep().expect("a sweep");

    let found: Vec<_> = found.iter().map(|orphan| (&orphan.sandbox_id, orphan.objects.join(","))).collect();
    assert_eq!(found, [(&stray, "keeper".to_owned())]);
    assert_eq!((report.swept, report.trouble.len()), (1, 0));
    assert!(!directory.exists() && world.engine.upkeep().orphans().expect("a look").orphans.is_empty());
}

#[test]
fn a_keeper_whose_guest_is_gone_ends_and_leaves_no_thread() {
    let world = world();
    let id = world.open_with_network("run_a", "allow=ok.test");
    let lock = std::fs::File::open(world.keepers.path().join(id.as_str()).join("lock")).expect("it is there");
    let control = world.keepers.path().join(id.as_str()).join("control");

    world.backend.kill_guest(&id);
    lock.lock().expect("the keeper lets go of it");

    // Nobody answers: the listener goes with its thread.
    let answer = UnixStream::connect(control).and_then(|mut asked| {
        asked.write_all(b"none\n")?;
        Ok(all(&asked))
    });
    assert_eq!(answer.unwrap_or_default(), "");
}

#[test]
fn a_sandbox_without_a_network_has_no_keeper() {
    let world = world();
    let id = world.open("run_a");

    world.exec("run_a", &id, &["true"]);

    assert_eq!(std::fs::read_dir(world.keepers.path()).expect("it is there").count(), 0);
    let shown = world.ok("run_a", "sandbox_get", json!({"sandbox_id": id}));
    assert_eq!((&shown["network"], &shown["egress"]), (&json!("none"), &Value::Null));
}
