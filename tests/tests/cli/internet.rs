//! The internet of the tests itself: it sees and answers each packet. Otherwise silence would prove nothing.

use coracle_tests::internet::{BANNER, CREDENTIALS, Internet, wires};
use coracle_tests::requires;

/// Sends one packet in each of several protocols, straight from the machine.
const SPRAY: &str = "
import socket, sys
to = sys.argv[1]
socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', (to, 443))
icmp = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
icmp.sendto(bytes([8, 0, 0xf7, 0xff, 0, 0, 0, 0]), (to, 0))
sctp = socket.socket(socket.AF_INET, socket.SOCK_RAW, 132)
sctp.sendto(bytes(12), (to, 0))
link = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
link.bind(('eth0', 0x88b5))
link.send(bytes.fromhex('02c0ac1e0001') + bytes.fromhex('02c0ac1e0002') + bytes.fromhex('88b5') + bytes(46))";

#[test]
fn what_the_machine_sends_is_answered_and_seen() {
    requires!(internet);
    let net = Internet::new();
    assert_eq!(net.packets(), []);

    let hello = net.run(&["curl", "--silent", "--show-error", "http://ok.test/hello"]);

    assert_eq!(String::from_utf8_lossy(&hello.stdout), "hello from ok.test\n", "{hello:?}");
    assert_eq!(net.strays(&[wires::OK, wires::OK_SIX, wires::NAME_SERVER]), [""; 0]);
    assert_eq!(net.strays(&[wires::NAME_SERVER]).len(), 1, "the same packets are strays to others");
    assert_eq!(net.curiosity(&["ok.test"]), [""; 0]);
    assert_eq!(net.web.visits().len(), 1);
    net.forget();
    assert_eq!(net.packets(), []);
}

#[test]
fn forbidden_addresses_answer_as_all_others_do() {
    requires!(internet);
    let net = Internet::new();

    for place in wires::FORBIDDEN {
        let host = if place.contains(':') { format!("[{place}]") } else { place.to_owned() };
        let read = net.run(&["curl", "--silent", "--globoff", &format!("http://{host}/")]);
        assert_eq!(String::from_utf8_lossy(&read.stdout), CREDENTIALS, "{place}: {read:?}");
    }

    assert_eq!(net.strays(&wires::FORBIDDEN), [""; 0]);
    assert_eq!(net.strays(&[]).len(), wires::FORBIDDEN.len());
}

#[test]
fn every_protocol_is_seen() {
    requires!(internet);
    let net = Internet::new();

    let sent = net.run(&["/usr/bin/python3", "-c", SPRAY, wires::EVIL]);

    assert!(sent.status.success(), "{sent:?}");
    let evil = wires::EVIL;
    let strays = net.strays(&[]);
    for kind in [
        format!("udp to {evil} port 443"),
        format!("protocol 1 to {evil}"),
        format!("protocol 132 to {evil}"),
        "a frame of kind 0x88b5".to_owned(),
    ] {
        assert!(strays.contains(&format!("sent {kind}")), "{kind} is not in {strays:?}");
    }
}

#[test]
fn the_servers_speak_what_clients_expect() {
    requires!(internet);
    let net = Internet::new();
    let directory = tempfile::tempdir().expect("a directory");
    let authority = directory.path().join("authority.pem");
    std::fs::write(&authority, net.web.authority()).expect("it is ours");
    let (authority, clone) =
        (authority.display().to_string(), directory.path().join("clone").display().to_string());
    let talk = "
import socket
database = socket.create_connection(('db.test', 5432)).makefile('rw')
database.write('select\\n'); database.flush()
print(database.readline(), end='')
print(socket.create_connection(('ok.test', 2222)).makefile().readline(), end='')";

    let secure =
        net.run(&["curl", "--silent", "--show-error", "--cacert", &authority, "https://ok.test/hello"]);
    let cloned = net.run(&["git", "clone", "--quiet", "http://ok.test/repository.git", &clone]);
    let target = directory.path().join("packages").display().to_string();
    let index = ["--index-url", "http://ok.test/simple", "--trusted-host", "ok.test"];
    let pip = ["/usr/bin/python3", "-m", "pip", "install", "--quiet", "--no-cache-dir", "--target", &target];
    let installed = net.run(&[&pip[..], &index, &["small"]].concat());
    let talked = net.run(&["/usr/bin/python3", "-c", talk]);

    assert_eq!(String::from_utf8_lossy(&secure.stdout), "hello from ok.test\n", "{secure:?}");
    assert_eq!(net.web.visits()[0].server_name.as_deref(), Some("ok.test"));
    assert!(cloned.status.success() && directory.path().join("clone/README").exists(), "{cloned:?}");
    assert!(
        installed.status.success() && directory.path().join("packages/small.py").exists(),
        "{installed:?}"
    );
    assert_eq!(String::from_utf8_lossy(&talked.stdout), format!("you said select\n{BANNER}\n"), "{talked:?}");
}

#[test]
fn names_mean_what_the_test_says_one_turn_after_the_other() {
    requires!(internet);
    let net = Internet::new();
    net.names.say_in_turn("turn.test", &[&[wires::OK], &["127.0.0.1"]]);
    let ask = "import socket\nfor _ in range(3): print(socket.gethostbyname('turn.test'))\n";

    let asked = net.run(&["/usr/bin/python3", "-c", ask]);

    let expected = format!("{}\n127.0.0.1\n127.0.0.1\n", wires::OK);
    assert_eq!(String::from_utf8_lossy(&asked.stdout), expected, "{asked:?}");
    assert_eq!(net.names.asked(), ["turn.test"; 3]);
}

#[test]
fn nothing_is_left_of_it() {
    requires!(internet);
    let net = Internet::new();
    let namespace = std::fs::read_link(format!("/proc/{}/ns/net", net.machine.pid())).expect("it is held");
    let namespace = namespace.to_string_lossy().into_owned();
    let held = || coracle_tests::census::holders(&namespace);
    assert_ne!(held(), 0, "the one that holds it is found");

    drop(net);

    let gone = coracle_tests::eventually(coracle_tests::SOON, || held() == 0);
    assert!(gone.is_some(), "{} processes are left in {namespace}", held());
}
