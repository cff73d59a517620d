//! Traffic keeps a sandbox alive in which nothing runs; an open connection alone does not.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use coracle_tests::{Home, Internet, SOON, eventually, requires};

/// Short against what the test waits for, long against a busy machine's own pauses.
const IDLE: &str = "3s";
/// How long there is traffic.
const TRAFFIC: Duration = Duration::from_secs(7);
/// Where the guest listens for clients of the proxy. In a sandbox without a process nothing else listens.
const PROXY: &str = "3128";
/// Between two lines, much less than the sandbox may be idle.
const PAUSE: Duration = Duration::from_millis(200);

/// Talks from outside to the sandbox's own proxy, and through it to a database.
fn reach_database(net: &Internet, address: SocketAddr) -> BufReader<TcpStream> {
    let stream = net.machine.inside(move || TcpStream::connect(address)).expect("it listens");
    stream.set_read_timeout(Some(SOON)).expect("a stream can have a timeout");
    let mut stream = BufReader::new(stream);
    let asked = b"CONNECT db.test:5432 HTTP/1.1\r\nHost: db.test:5432\r\n\r\n";
    stream.get_mut().write_all(asked).expect("it is led to the proxy");
    assert!(line(&mut stream).starts_with("HTTP/1.1 200"));
    while line(&mut stream) != "\r\n" {}
    stream
}

fn line(stream: &mut BufReader<TcpStream>) -> String {
    let mut line = String::new();
    stream.read_line(&mut line).expect("the connection is open");
    assert!(!line.is_empty(), "the connection has ended");
    line
}

/// Returns how long a sandbox that has expired was in use.
fn used(home: &Home, sandbox: &str) -> Duration {
    let record = home.call(["show", sandbox, "--json"]).succeed().json();
    let at = |name: &str| record[name].as_u64().unwrap_or_else(|| panic!("no {name}: {record}"));
    Duration::from_millis(at("idle_since") - at("created_at"))
}

/// What is forwarded and what goes out are carried alike, and here by each other: no command runs.
#[test]
fn forwarded_and_outgoing_traffic_is_use_and_a_silent_connection_is_not() {
    requires!(internet);
    let net = Internet::new();
    let home = net.home();
    let sandbox = home.open_with(&["--ttl", IDLE, "--on-idle", "destroy", "--network", "allow=db.test:5432"]);
    let forward = home.call(["forward", &sandbox, PROXY]).start();
    forward.wait_for(|output| output.ends_with(b"\n"));
    let address = String::from_utf8_lossy(&forward.stdout()).trim().parse().expect("an address");
    let mut database = reach_database(&net, address);

    let began = Instant::now();
    while began.elapsed() < TRAFFIC {
        database.get_mut().write_all(b"hi\n").expect("the sandbox lives");
        assert_eq!(line(&mut database), "you said hi\n");
        std::thread::sleep(PAUSE);
    }

    assert!(eventually(SOON, || home.census().guests().is_empty()).is_some(), "silence is no use");
    let used = used(&home, &sandbox);
    assert!(used >= TRAFFIC - PAUSE, "it is idle from the last byte on: {used:?}");
    drop(database);
    forward.kill();
}
