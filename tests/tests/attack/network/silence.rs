//! Sandboxes without a network, and those whose program ignores how the network is to be used.

use coracle_tests::internet::{Internet, wires};
use coracle_tests::{Attack, Route, requires};

use super::{ROUTES, WALLS};
use crate::GROUND;

const REACH_OUT: &str = include_str!("../payloads/reach_out.py");

#[test]
fn nw_01_nothing_leaves_a_sandbox_without_a_network() {
    requires!(internet);
    let net = super::internet();
    let title = "`network: none`: connect, ask for names, send what is not IP, of both versions";
    let every = &[
        "tcp to 93.184.216.66 port 80",
        "udp to 93.184.216.53 port 53",
        "protocol 1 to 93.184.216.66",
        "protocol 58 to 2606:2800:220:1::66",
        "tcp to 2606:2800:220:1::66 port 443",
        "a frame of kind",
    ];
    Attack::starred(GROUND, "NW-01", title).through(&net.door()).without(WALLS).every(every).run(|arena| {
        net.forget();
        let places = [wires::EVIL, wires::EVIL_SIX, wires::NAME_SERVER, "169.254.169.254", "fd00:ec2::254"];
        let ran = arena.python(REACH_OUT, &places);
        let told = ran.text().lines().map(|line| line.trim_end().to_owned());
        told.chain(net.strays(&[])).collect()
    });
}

#[test]
fn nw_10_what_does_not_ask_the_proxy_gets_nowhere() {
    requires!(internet);
    let net = super::internet();
    let title = "without the proxy: TCP, UDP, QUIC, SCTP, ICMP and raw frames, of both versions, allowed host included";
    let every = &[
        "tcp to 93.184.216.66 port 443",
        "udp to 93.184.216.10 port 443",
        "protocol 132",
        "a frame of kind",
    ];
    Attack::starred(GROUND, "NW-10", title)
        // One at a time: in the twin all sandboxes listen in the same network.
        .by(&[Route::Create])
        .with(&["--network", "allow=ok.test"])
        .through(&net.door())
        .without(WALLS)
        .every(every)
        .run(|arena| {
            net.forget();
            let places = [wires::EVIL, wires::EVIL_SIX, wires::OK, wires::OK_SIX, "169.254.169.254"];
            let ran = arena.python(REACH_OUT, &places);
            let told = ran.text().lines().map(|line| line.trim_end().to_owned());
            told.chain(net.strays(&[])).collect()
        });
}

/// Data in names, by every way a name gets to a resolver.
const TUNNEL: &str = include_str!("../payloads/tunnel_names.py");

#[test]
fn nw_09_names_carry_nothing_out() {
    requires!(internet);
    let net = Internet::new();
    let title =
        "data in names: the system's resolver, servers of names asked directly, the proxy, DNS over HTTPS";
    Attack::starred(GROUND, "NW-09", title)
        .by(ROUTES)
        .with(&["--network", "allow=ok.test,*.ok.test"])
        .through(&net.door())
        .without(&["EgressRules"])
        .every(&["asked for `data-"])
        .run(|arena| {
            net.forget();
            let ran = arena.python(TUNNEL, &[wires::NAME_SERVER]);
            assert!(ran.text().contains("that was all"), "the attack itself failed: {ran}");
            let strays = net.strays(&[wires::NAME_SERVER, wires::OK, wires::OK_SIX]);
            net.curiosity(&["ok.test"]).into_iter().chain(strays).collect()
        });
}

/// Another sandbox, as loud as it can be.
const NEIGHBOUR: &str = include_str!("../payloads/be_neighbour.py");
const MEET: &str = include_str!("../payloads/meet_neighbour.py");

#[test]
fn nw_04_sandboxes_have_no_way_to_each_other() {
    requires!(internet);
    let net = Internet::new();
    let title =
        "another sandbox: its server, by loopback and the machine's addresses; what it says, by listening";
    Attack::starred(GROUND, "NW-04", title)
        .by(ROUTES)
        .through(&net.door())
        .without(WALLS)
        .every(&["reached a neighbour", "heard a neighbour"])
        .run(|arena| {
            let other = arena.home.open();
            let neighbour = arena.home.exec(&other, ["python3", "-c", NEIGHBOUR]).start();
            neighbour.wait_for(|output| output.starts_with(b"up"));
            let places = ["127.0.0.1", "::1", "127.77.0.1", wires::MACHINE, wires::MACHINE_PRIVATE];
            let met = arena.python(MEET, &places);
            neighbour.kill();
            arena.home.call(["close", &other]).succeed();
            met.text().lines().map(|line| line.trim_end().to_owned()).collect()
        });
}
