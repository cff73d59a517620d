//! The network when the keeper dies, with more connections than the limit, and from outside.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::time::Duration;

use coracle_tests::internet::{Internet, Packet, Trap, trap, wires};
use coracle_tests::{Arena, Attack, Breaches, Home, Route, SOON, count, eventually, requires};
use rustix::process::{Pid, Signal};

use super::WALLS;
use crate::GROUND;

const FALL_BACK: &str = include_str!("../payloads/fall_back.py");
const HOLD_ON: &str = include_str!("../payloads/hold_on.py");
const MANY: &str = include_str!("../payloads/open_many.py");
/// Connections one sandbox may have at once, where the operator says nothing else.
const CONNECTIONS_MAX: usize = 256;
const PATIENCE: Duration = Duration::from_secs(5);
/// How long a flood that nothing stops needs at most for the connections beyond.
const MORE: Duration = Duration::from_secs(2);
/// Connections that are just being refused hold a place, too.
const SLACK: usize = 32;

/// Kills everything that holds tunnels of a home.
fn kill_keepers(home: &Home) -> usize {
    let census = home.census();
    let keepers = census.processes.iter().filter(|process| process.command.contains(" keeper "));
    let killed = keepers.filter_map(|process| {
        let pid = i32::try_from(process.pid).ok().and_then(Pid::from_raw)?;
        rustix::process::kill_process(pid, Signal::KILL).ok()
    });
    killed.count()
}

#[test]
fn nw_13_who_ends_the_keeper_gains_nothing() {
    requires!(internet);
    let net = super::internet();
    let title =
        "kill the keeper in the middle of a transfer, then try other hosts by its successor and around it";
    Attack::starred(GROUND, "NW-13", title)
        .by(&[Route::Exec])
        .with(&["--network", "allow=ok.test"])
        .through(&net.door())
        .without(WALLS)
        .run(|arena| {
            let client = arena.call(&["python3", "-c", FALL_BACK, wires::EVIL, wires::OK]).start();
            client.wait_for(|output| output.starts_with(b"streaming"));
            assert_eq!(kill_keepers(arena.home), 1, "a sandbox has one keeper");
            let ended = client.finish().expect_code(0);
            assert!(ended.text().contains("cut off"), "the transfer went on: {ended}");
            let reached = ended.text().lines().filter(|line| line.starts_with("reached"));
            let reached: Breaches = reached.map(str::to_owned).collect();
            let strays = net.strays(&[wires::NAME_SERVER, wires::OK, wires::OK_SIX]);
            net.forget();
            reached.into_iter().chain(strays).collect()
        });
}

#[test]
fn nw_13_a_narrower_network_leaves_no_connection_behind() {
    requires!(internet);
    let net = Internet::new();
    let title =
        "hold connections over a narrowing of the network, by the proxy and past it, and go on using them";
    Attack::starred(GROUND, "NW-13b", title)
        .by(&[Route::Exec])
        .with(&["--network", "allow=ok.test,db.test:5432,other.test"])
        .through(&net.door())
        .without(&["EgressNarrowing"])
        .every(&["http", "database"])
        .run(|arena| {
            let client = arena.call(&["python3", "-c", HOLD_ON]).start();
            client.wait_for(|output| output.starts_with(b"connected"));
            arena.home.call(["network", arena.sandbox(), "allow=other.test"]).succeed();
            net.forget_when_quiet();
            arena.call(&["touch", "/workspace/narrowed"]).succeed();
            let told = client.finish().expect_code(0);
            let strays = net.strays(&[wires::NAME_SERVER, wires::OTHER]);
            let lines = told.text().lines().skip(1).map(str::to_owned);
            lines.chain(strays).collect()
        });
}

/// Returns how many places without an answer were tried.
fn half_open(net: &Internet) -> usize {
    let silent = |to: &IpAddr| to.to_string().starts_with(wires::SILENT);
    let places: BTreeSet<_> = net
        .packets()
        .into_iter()
        .filter_map(|packet| match packet {
            Packet::Port { to, port, .. } if silent(&to) => Some((to, port)),
            Packet::Port { .. } | Packet::Plain { .. } | Packet::Link { .. } => None,
        })
        .collect();
    places.len()
}

#[test]
fn nw_15_connections_are_counted_open_or_half_open() {
    requires!(internet);
    let net = Internet::new();
    let title = "more connections than a sandbox may have, to servers that answer and to some that never do";
    let many = count(600, 20_000).to_string();
    Attack::row(GROUND, "NW-15", title)
        .by(&[Route::Exec])
        .with(&["--network", "open", "--pids", "200"])
        .through(&net.door())
        .without(&["EgressCaps"])
        .run(|arena| {
            net.forget();
            let flood = arena.call(&["python3", "-c", MANY, &many, wires::SILENT]).start();
            let reached = eventually(SOON, || half_open(&net) > CONNECTIONS_MAX - SLACK);
            assert!(reached.is_some(), "the flood comes to {} connections only", half_open(&net));
            // Counted well within the time after which an unanswered connection is given up, and its place
            // taken by the next.
            let over = eventually(MORE, || half_open(&net) > CONNECTIONS_MAX + SLACK)
                .map(|_| format!("{} connections at once", half_open(&net)));
            let others = others_are_served(arena);
            let descriptors = descriptors(arena.home);
            flood.kill();
            // Two for each connection, and what it needs itself.
            let many =
                (descriptors > 2 * CONNECTIONS_MAX + 128).then(|| format!("{descriptors} descriptors"));
            over.into_iter().chain(many).chain(others).collect()
        });
}

/// Returns how many descriptors the keeper that has the most has open.
fn descriptors(home: &Home) -> usize {
    let census = home.census();
    let keepers = census.processes.iter().filter(|process| process.command.contains(" keeper "));
    let open = keepers
        .filter_map(|process| Some(std::fs::read_dir(format!("/proc/{}/fd", process.pid)).ok()?.count()));
    open.max().unwrap_or(0)
}

/// Tells what does not work for others meanwhile.
fn others_are_served(arena: &Arena<'_>) -> Breaches {
    let curl = ["curl", "--silent", "--fail", "--max-time", "10", "http://ok.test/hello"];
    let words = [&["run", "--network", "allow=ok.test", "--"], &curl[..]].concat();
    let other = arena.home.call(words).run();
    let own = arena.call(&["true"]).run();
    let other = (other.code() != Some(0)).then(|| format!("another sandbox is not served: {other}"));
    let own = (own.code() != Some(0)).then(|| format!("its owner cannot work in it: {own}"));
    other.into_iter().chain(own).collect()
}

/// Serves one file in a sandbox.
const SERVE: &str = "
import http.server, socketserver
class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers(); self.wfile.write(b'from the sandbox')
server = socketserver.TCPServer(('127.0.0.1', 8000), Answer)
print('up', flush=True)
server.serve_forever()";

/// Tries to connect to the machine at a port, from the internet.
fn from_outside(net: &Internet, port: u16) -> Breaches {
    let machine = [wires::MACHINE, wires::MACHINE_PRIVATE, wires::MACHINE_SIX];
    let connected = machine.into_iter().filter(|address| {
        let to = SocketAddr::new(wires::address(address), port);
        net.outside.inside(move || TcpStream::connect_timeout(&to, PATIENCE)).is_ok()
    });
    connected.map(|address| format!("connected to {address} from outside")).collect()
}

#[test]
fn nw_14_a_forwarded_port_is_for_the_machine_alone() {
    requires!(internet);
    let net = Internet::new();
    let attempt = |arena: &Arena<'_>| -> Breaches {
        let server = arena.call(&["python3", "-c", SERVE]).start();
        server.wait_for(|output| output.starts_with(b"up"));
        let forward = arena.home.call(["forward", arena.sandbox(), "8000"]).start();
        forward.wait_for(|output| output.ends_with(b"\n"));
        let printed = String::from_utf8(forward.stdout()).expect("an address");
        let address = printed.trim().trim_start_matches("http://").to_owned();
        let read = net.run(&["curl", "--silent", &format!("http://{address}/")]);
        assert_eq!(String::from_utf8_lossy(&read.stdout), "from the sandbox", "{printed}");
        let port = address.rsplit(':').next().and_then(|port| port.parse().ok()).expect("a port");
        let mut breaches = from_outside(&net, port);
        let asked = arena.home.call([
            "run",
            "--network",
            "open",
            "--",
            "curl",
            "--silent",
            "--max-time",
            "5",
            &format!("http://{address}/"),
        ]);
        if asked.run().text().contains("from the sandbox") {
            breaches.push("another sandbox read it".to_owned());
        }
        forward.kill();
        server.kill();
        breaches
    };
    let naive = || {
        let _bound_to_all = Trap::set(&net.machine, "::");
        from_outside(&net, trap::PORT)
    };
    let title = "a forwarded port: connect to it from the network, and from another sandbox";
    Attack::row(GROUND, "NW-14", title).by(&[Route::Exec]).through(&net.door()).run_beside(attempt, naive);
}
