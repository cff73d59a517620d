//! Started by a service manager: it opens the socket, and is told when the daemon serves.

use std::os::unix::net::UnixDatagram;
use std::time::Duration;

use coracle_tests::http::Request;
use coracle_tests::{Daemon, Home, requires};

/// Listens at a path, as systemd does, and becomes the daemon.
const ACTIVATE: &str = "
import os, socket, sys
listener = socket.socket(socket.AF_UNIX)
listener.bind(sys.argv[1])
listener.listen(64)
os.dup2(listener.fileno(), 3)
os.set_inheritable(3, True)
os.environ.update(LISTEN_FDS='1', LISTEN_PID=str(os.getpid()))
os.execv(sys.argv[2], sys.argv[2:])
";

#[test]
fn a_socket_that_was_opened_for_it_is_served_and_readiness_is_told() {
    requires!(native);
    let home = Home::new();
    home.call(["ps"]).succeed();
    let manager = tempfile::tempdir().expect("a directory");
    let told = UnixDatagram::bind(manager.path().join("notify")).expect("binds");
    told.set_read_timeout(Some(Duration::from_secs(30))).expect("a socket has a timeout");
    let socket = home.path().join("coracle.sock");

    let serve =
        home.call(["serve", "--listen", "127.0.0.1:0"]).env("NOTIFY_SOCKET", manager.path().join("notify"));
    let daemon = Daemon::from(serve.through(["python3", "-c", ACTIVATE, &socket.to_string_lossy()]), &home);
    let word = |told: &UnixDatagram| {
        let mut word = [0; 64];
        let length = told.recv(&mut word).expect("a word");
        String::from_utf8_lossy(&word[..length]).into_owned()
    };

    assert_eq!(word(&told), "READY=1");
    assert!(!daemon.said().contains("unix:"), "it opened none of its own: {}", daemon.said());
    Request::get("/v1/sandboxes").send(&daemon.unix()).expect(200);
    daemon.end().expect_code(0);
    assert_eq!(word(&told), "STOPPING=1");
    assert!(socket.exists(), "the manager's socket is the manager's");
}

fn unit(name: &str) -> String {
    let path = format!("{}/../deploy/systemd/{name}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(path).expect("a unit")
}

#[test]
fn what_the_unit_starts_is_a_command_the_binary_has() {
    let (home, service) = (Home::new(), unit("coracle.service"));
    // Words are judged before help is given.
    let judged = |words: &[&str]| home.call(words.iter().chain(&["--help"])).run();

    let starts: Vec<_> = service.lines().filter_map(|line| line.strip_prefix("ExecStart=")).collect();
    let [start] = starts[..] else { panic!("one command: {starts:?}") };
    let (program, words) = start.split_once(' ').expect("a program and its words");
    let words: Vec<&str> = words.split(' ').collect();

    assert!(program.ends_with("/coracle"), "{program}");
    let help = judged(&words).expect_code(0);
    assert!(help.text().contains("coracle serve"), "the daemon's own help: {}", help.text());
    assert_ne!(
        judged(&[&words[..], &["--no-such-flag"]].concat()).code(),
        Some(0),
        "the binary is a judge of them"
    );
}

#[test]
fn the_units_wait_for_the_word_and_leave_sandboxes_and_strangers_alone() {
    let service = unit("coracle.service");

    for line in ["Type=notify", "KillMode=process", "Delegate=yes"] {
        assert!(service.lines().any(|one| one == line), "{line}");
    }
    assert!(unit("coracle.socket").lines().any(|one| one == "SocketMode=0600"));
}

#[test]
fn a_socket_others_can_reach_needs_behind_tls_even_from_a_service_manager() {
    requires!(native);
    let home = Home::new();
    home.call(["ps"]).succeed();
    let activate =
        ACTIVATE.replace("socket.AF_UNIX", "socket.AF_INET").replace("sys.argv[1]", "('0.0.0.0', 0)");

    let refused = home.call(["serve", "--json"]).through(["python3", "-c", &activate, "none"]).run();

    assert_eq!(refused.error_kind(), "invalid");
}
