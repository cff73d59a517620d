//! Addresses that no sandbox may reach, by any name: the machine, its network, and metadata services.

use coracle_tests::internet::{Internet, Trap, trap, wires};
use coracle_tests::{Attack, Breaches, Route, requires};

use super::{ASK_PROXY, ROUTES};
use crate::GROUND;

/// The machine's own addresses, each with a server that must not be called.
fn traps(net: &Internet) -> Vec<(&'static str, Trap)> {
    let own = ["127.0.0.1", "::1", wires::MACHINE, wires::MACHINE_PRIVATE, wires::MACHINE_SIX];
    own.map(|address| (address, Trap::set(&net.machine, address))).into()
}

fn sprung(traps: &[(&str, Trap)]) -> Breaches {
    let called = traps.iter().filter(|(_, trap)| trap.calls() > 0);
    called.map(|(address, _)| format!("called the machine at {address}")).collect()
}

/// Writes an address as it stands in front of a port.
fn bracketed(address: &str) -> String {
    if address.contains(':') { format!("[{address}]") } else { address.to_owned() }
}

/// Names that resolve to addresses of the machine, and other spellings of loopback and broadcast addresses.
const ODD_PLACES: [&str; 9] = [
    "metadata.test:80",
    "inside.test:80",
    "machine.test:8088",
    "localhost:8088",
    "0.0.0.0:8088",
    "[::]:8088",
    "127.77.0.1:8088",
    "224.0.0.1:80",
    "255.255.255.255:80",
];

#[test]
fn nw_02_what_is_not_the_internet_is_out_of_reach() {
    requires!(internet);
    let net = Internet::new();
    let traps = traps(&net);
    net.names.say("metadata.test", &["169.254.169.254"]);
    net.names.say("inside.test", &["10.0.0.5", "fd00:ec2::254"]);
    net.names.say("machine.test", &[wires::MACHINE]);
    let embedded = ["::ffff:a9fe:a9fe", "64:ff9b::a9fe:a9fe", "2002:a9fe:a9fe::1", "2001:0:a9fe:a9fe::1"];
    let places = wires::FORBIDDEN.iter().chain(&embedded).map(|address| format!("{}:80", bracketed(address)));
    let machine = traps.iter().map(|(address, _)| format!("{}:{}", bracketed(address), trap::PORT));
    let targets: Vec<String> = places.chain(machine).chain(ODD_PLACES.map(str::to_owned)).collect();
    let targets: Vec<&str> = targets.iter().map(String::as_str).collect();
    let title =
        "`network: open`: metadata, private and shared networks, the machine itself, by address and by name";
    let every =
        &["169.254.169.254", "fd00:ec2::254", "10.0.0.5", "machine at 127.0.0.1", "machine at 93.184.217.2"];
    Attack::starred(GROUND, "NW-02", title)
        .by(ROUTES)
        .with(&["--network", "open"])
        .through(&net.door())
        .without(&["EgressAddress"])
        .every(every)
        .run(|arena| {
            net.forget();
            arena.python(ASK_PROXY, &targets);
            net.strays(&[wires::NAME_SERVER]).into_iter().chain(sprung(&traps)).collect()
        });
}

/// Allowed names whose addresses are not.
const MIXED: [&str; 6] = [
    "mixed.test:80",
    "part.test:80",
    "mapped.test:80",
    "zero.test:8088",
    "localhost:8088",
    "machine.test:8088",
];

#[test]
fn nw_05_a_name_that_changes_its_mind_leads_nowhere_else() {
    requires!(internet);
    let net = Internet::new();
    let traps = traps(&net);
    let title =
        "an allowed name that is public first and then the machine or metadata; answers that mix both";
    const RULES: &str = "allow=turn.test,turn.test:8088,late.test,mixed.test,part.test,mapped.test,zero.test:8088,\
                         localhost:8088,machine.test:8088";
    Attack::starred(GROUND, "NW-05", title)
        .by(&[Route::Create])
        .with(&["--network", RULES])
        .through(&net.door())
        .without(&["EgressAddress"])
        .every(&["169.254.169.254", "10.0.0.5", "machine at 127.0.0.1"])
        .run(|arena| {
            net.forget();
            net.names.say_in_turn("turn.test", &[&[wires::OK], &["127.0.0.1"]]);
            net.names.say_in_turn("late.test", &[&[wires::OK], &["169.254.169.254"]]);
            net.names.say("mixed.test", &["10.0.0.5", "169.254.169.254", "fd00:ec2::254"]);
            net.names.say("part.test", &["10.0.0.5", wires::OK, "169.254.169.254"]);
            net.names.say("mapped.test", &["::ffff:169.254.169.254", "64:ff9b::a9fe:a9fe"]);
            net.names.say("zero.test", &["0.0.0.0", "::"]);
            net.names.say("machine.test", &[wires::MACHINE, wires::MACHINE_SIX]);
            let turns = ["turn.test:8088", "turn.test:8088", "turn.test:80", "late.test:80", "late.test:80"];
            let words = [&turns[..], &MIXED].concat();
            arena.python(ASK_PROXY, &words);
            net.strays(&[wires::NAME_SERVER, wires::OK]).into_iter().chain(sprung(&traps)).collect()
        });
}
