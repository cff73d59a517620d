//! Names and addresses spelled so that two readers might read them differently; and what is said on a connection that
//! was allowed for another host.

use coracle_tests::internet::{Internet, Visit, wires};
use coracle_tests::{Arena, Attack, Breaches, Route, requires};

use super::{ASK_PROXY, ROUTES};
use crate::GROUND;

/// Spellings of hosts that are not allowed, as close to one that is as they get; with escapes of Python's.
const ODD: [&str; 30] = [
    "evil.test\\x00.ok.test:80",
    "ok.test\\x00.evil.test:80",
    "ok.test%00.evil.test:80",
    "ok.test%2eevil.test:80",
    "ok.test@evil.test:80",
    "evil.test#.ok.test:80",
    "evil.test/.ok.test:80",
    "evil.test?.ok.test:80",
    "evil.test\\\\.ok.test:80",
    "evil.test\\x0d\\x0aX:ok.test:80",
    "evil.test\\x20ok.test:80",
    "evil.test\\x09:80",
    "evil.test..:80",
    "evil\\xe3\\x80\\x82test:80",
    "evil\\xef\\xbc\\x8etest:80",
    "evil\\xe2\\x80\\xa4test:80",
    "\\xef\\xbd\\x85vil.test:80",
    "ok.test.evil.test:80",
    "notok.test:80",
    "xn--evil.test:80",
    "[::ffff:a9fe:a9fe]:80",
    "[::ffff:169.254.169.254]:80",
    "[64:ff9b::a9fe:a9fe]:80",
    "[fe80::1%25eth0]:80",
    "2852039166:80",
    "0xa9fea9fe:80",
    "0251.0376.0251.0376:80",
    "169.254.43518:80",
    "127.1:8088",
    "0x7f.1:8088",
];

#[test]
fn nw_06_a_host_is_read_in_one_way_only() {
    requires!(internet);
    let net = Internet::new();
    net.names.say("*.ok.test", &[wires::EVIL]);
    net.names.say("ok.test.evil.test", &[wires::EVIL]);
    net.names.say("notok.test", &[wires::EVIL]);
    let title = "NUL, escapes, user parts, dots of other scripts, numbers and embedded addresses as hosts";
    Attack::starred(GROUND, "NW-06", title)
        .by(ROUTES)
        .with(&["--network", "allow=ok.test,*.ok.test"])
        .through(&net.door())
        .without(&["EgressSpelling", "EgressRules", "EgressAddress"])
        // No host in the list spells these plainly: only a host that is misread leads there.
        .every(&["asked for `evil.test`", "sent tcp to 169.254.169.254"])
        .run(|arena| {
            net.forget();
            let long = format!("{}.ok.test:80", "a.".repeat(124).trim_end_matches('.'));
            let label = format!("{}.ok.test:80", "a".repeat(64));
            arena.python(ASK_PROXY, &[&ODD[..], &[&long, &label]].concat());
            let strays = net.strays(&[wires::NAME_SERVER, wires::OK, wires::OK_SIX]);
            strays.into_iter().chain(net.curiosity(&["ok.test"])).collect()
        });
}

/// Requests for other hosts than the one the connection was allowed for.
const PRETEND: &str = include_str!("../payloads/pretend.py");

#[test]
fn nw_08_a_connection_is_for_the_host_it_was_given_for() {
    requires!(internet);
    let net = Internet::new();
    let title =
        "CONNECT to an allowed host, then another server name or `Host`; the same at synthetic addresses";
    Attack::row(GROUND, "NW-08", title)
        .by(ROUTES)
        .with(&["--network", "allow=ok.test,ok.test:8080,ok.test:8443"])
        .through(&net.door())
        .without(&["EgressName"])
        .every(&["server name `evil.test`", "a request for another host"])
        .run(|arena| {
            net.forget();
            pretend(arena);
            net.web.visits().iter().flat_map(pretence).collect()
        });
}

fn pretend(arena: &Arena<'_>) {
    let ran = arena.python(PRETEND, &[]);
    assert!(ran.text().contains("that was all"), "the attack itself failed: {ran}");
}

/// Tells what is wrong with a request that arrived at the allowed server.
fn pretence(visit: &Visit) -> Breaches {
    let host = visit.request.header("host").unwrap_or_default();
    let mut breaches = Breaches::new();
    if let Some(name) = visit.server_name.as_deref().filter(|name| *name == "evil.test") {
        breaches.push(format!("server name `{name}` arrived"));
    }
    if visit.server_name.is_none() && visit.at.port() == 443 {
        breaches.push("no server name arrived".to_owned());
    }
    // The proxy writes the header itself, so the path shows whether it is the pretended one. Only the server sees inside TLS; that is
    // written down in `docs/egress.md`.
    if [80, 8080].contains(&visit.at.port())
        && (visit.request.target().contains("pretended") || host.contains("evil.test"))
    {
        breaches.push(format!("a request for another host arrived, now with `Host: {host}`"));
    }
    breaches
}

/// Requests that two readers divide differently.
const SMUGGLE: &str = include_str!("../payloads/smuggle.py");

#[test]
fn nw_11_one_request_is_one_decision() {
    requires!(internet);
    let net = Internet::new();
    let title =
        "two lengths, length and chunks, folded lines, bare line feeds, pipelining, a request in a body";
    Attack::row(GROUND, "NW-11", title)
        .by(&[Route::Create])
        .with(&["--network", "allow=ok.test"])
        .through(&net.door())
        .without(&["EgressRequests"])
        .run(|arena| {
            net.forget();
            arena.python(SMUGGLE, &[]);
            let smuggled = |visit: &&Visit| {
                visit.request.target().contains("smuggled")
                    || visit.request.header("host") == Some("evil.test")
            };
            let visits = net.web.visits();
            let arrived = visits
                .iter()
                .filter(smuggled)
                .map(|visit| format!("`{}` arrived", visit.request.head.lines().next().unwrap_or_default()));
            arrived.chain(net.strays(&[wires::NAME_SERVER, wires::OK, wires::OK_SIX])).collect()
        });
}

#[test]
fn nw_12_a_redirect_is_judged_like_every_other_request() {
    requires!(internet);
    let net = Internet::new();
    let title = "an allowed host redirects to metadata and to a host that is not allowed";
    Attack::row(GROUND, "NW-12", title)
        .by(ROUTES)
        .with(&["--network", "allow=ok.test"])
        .through(&net.door())
        .without(&["EgressAddress", "EgressRules"])
        .every(&["169.254.169.254", "asked for `evil.test`"])
        .run(|arena| {
            net.forget();
            for to in ["http://169.254.169.254/", "http://evil.test/hello", "http://[fd00:ec2::254]/"] {
                let from = format!("http://ok.test/redirect?{to}");
                arena.call(&["curl", "--silent", "--location", "--globoff", "--max-time", "5", &from]).run();
            }
            let strays = net.strays(&[wires::NAME_SERVER, wires::OK, wires::OK_SIX]);
            strays.into_iter().chain(net.curiosity(&["ok.test"])).collect()
        });
}
