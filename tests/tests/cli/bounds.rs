//! Limits of a network: the operator's settings, names and bytes per second, the number of connections.

use std::collections::BTreeSet;
use std::time::Duration;

use coracle_tests::internet::{Internet, wires};
use coracle_tests::{Home, SOON, eventually, requires};

#[test]
fn names_are_looked_up_only_so_fast() {
    requires!(internet);
    let net = Internet::new();
    let home = net.home();
    std::fs::write(home.path().join("config.toml"), "[network]\nnames_per_second = 1\n")
        .expect("a home is ours");
    let script = "for n in $(seq 1 90); do curl --silent --output /dev/null http://n$n.ok.test/hello; done";

    let ran = home
        .call(["run", "--json", "--network", "allow=*.ok.test", "--", "sh", "-c", script])
        .succeed()
        .json();

    let asked: BTreeSet<_> = net.names.asked().into_iter().collect();
    let limited = ran["egress_denied"]
        .as_array()
        .into_iter()
        .flatten()
        .filter(|denial| denial["reason"] == "limit")
        .count();
    assert!((1..80).contains(&asked.len()), "{} names were asked for", asked.len());
    assert!(asked.len() + limited >= 90, "{} were asked for and {limited} refused: {ran}", asked.len());
}

#[test]
fn the_operator_says_how_much_there_may_be() {
    requires!(internet);
    let net = Internet::new();
    let home = net.home();
    let settings = "[network]\nmax = \"allow=ok.test,*.ok.test\"\n";
    std::fs::write(home.path().join("config.toml"), settings).expect("a home is ours");
    let ask = |network: &str| home.call(["run", "--json", "--network", network, "--", "true"]).run();

    assert_eq!(ask("allow=ok.test").code(), Some(0));
    assert_eq!(ask("allow=a.ok.test").code(), Some(0));
    for beyond in ["open", "allow=evil.test", "allow=ok.test,evil.test", "allow=*.test", "allow=ok.test:22"] {
        assert_eq!(ask(beyond).code(), Some(125), "{beyond}");
    }
    assert_eq!(ask("allow=10.0.0.5").code(), Some(125), "a private address is the operator's to give");
}

#[test]
fn the_operator_says_how_fast_it_may_be() {
    requires!(internet);
    let net = Internet::new();
    let home = net.home();
    std::fs::write(home.path().join("config.toml"), "[network]\nbandwidth_mbit = 8\n")
        .expect("a home is ours");
    let sandbox = home.open_with(&["--network", "allow=ok.test"]);
    let fetch = ["sh", "-c", "curl --silent http://ok.test/bytes?2000000 | wc -c"];

    let ran = home.exec(&sandbox, fetch).succeed();

    assert_eq!(ran.text().trim(), "2000000");
    // A million bytes each second, but for what may go at once.
    assert!(ran.elapsed > Duration::from_millis(1500), "it took {:?}", ran.elapsed);
}

#[test]
fn as_many_connections_as_are_allowed_work_at_once() {
    requires!(internet);
    let net = Internet::new();
    // What most machines give a process.
    let limited = ["prlimit", "--nofile=1024:", "--"].map(str::to_owned);
    let home = Home::new().through(&limited).inside(&net.door());
    let many = "
import socket
streams = [socket.create_connection(('db.test', 5432), 10).makefile('rw') for _ in range(256)]
for number, stream in enumerate(streams): stream.write(f'{number}\\n'); stream.flush()
print(sum(stream.readline() == f'you said {number}\\n' for number, stream in enumerate(streams)))";

    let ran = home.call(["run", "--network", "allow=db.test:5432", "--", "python3", "-c", many]);

    assert_eq!(ran.succeed().text(), "256\n");
}

#[test]
fn closing_a_sandbox_waits_for_no_server_outside() {
    requires!(internet);
    let net = Internet::new();
    let home = net.home();
    let sandbox = home.open_with(&["--network", "open"]);
    let place = format!("http://{}.1/", wires::SILENT);
    let waiting = home.exec(&sandbox, ["curl", "--silent", &place]).start();
    let sent = eventually(SOON, || !net.strays(&[]).is_empty());
    assert!(sent.is_some(), "it is on its way to an address that never answers");

    let closed = home.call(["close", &sandbox]).succeed();

    // The connection would be given up after ten seconds.
    assert!(closed.elapsed < Duration::from_secs(8), "it took {:?}", closed.elapsed);
    waiting.finish();
}
