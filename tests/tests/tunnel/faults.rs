//! After any fault of the connection, the next call has a working one or says why not.

use std::time::{Duration, Instant};

use coracle_core::Kind;
use coracle_tests::engines::sshd::Sshd;
use coracle_tests::requires;
use rustix::process::Signal;

use crate::engine::{Engine, ask};
use crate::far::{Far, ends};

#[test]
fn a_connection_that_was_killed_is_made_again() {
    requires!(sshd);
    let (far, engine) = (Far::new(Sshd::new()), Engine::new());
    let before = far.open(&engine.socket()).expect("the engine is there");
    let master = far.master();

    far.signal(Signal::KILL);
    assert!(ends(master));
    let after = far.open(&engine.socket()).expect("it is made again");

    assert_eq!(before, after);
    assert!(ask(&after).ends_with("OK"));
    assert_eq!(far.sshd.logins(), 2);
}

#[test]
fn a_connection_that_hangs_is_replaced_in_bounded_time() {
    requires!(sshd);
    let (far, engine) = (Far::new(Sshd::new()), Engine::new());
    far.open(&engine.socket()).expect("the engine is there");
    let hanging = far.master();
    far.signal(Signal::STOP);

    let start = Instant::now();
    let socket = far.open(&engine.socket()).expect("it is made again");

    assert!(start.elapsed() < Duration::from_secs(60), "{:?}", start.elapsed());
    assert!(ends(hanging), "the one that hangs is still there");
    assert!(ask(&socket).ends_with("OK"));
}

#[test]
fn a_socket_that_was_swept_away_is_made_again() {
    requires!(sshd);
    let (far, engine) = (Far::new(Sshd::new()), Engine::new());
    let socket = far.open(&engine.socket()).expect("the engine is there");
    let master = far.master();
    std::fs::remove_file(&socket).expect("it is ours");

    let socket = far.open(&engine.socket()).expect("it is made again");

    assert!(ask(&socket).ends_with("OK"));
    assert!(ends(master), "the useless one is still there");
}

#[test]
fn a_machine_that_goes_away_is_said_to_be_and_found_when_it_is_back() {
    requires!(sshd);
    let (mut far, engine) = (Far::new(Sshd::new()), Engine::new());
    far.open(&engine.socket()).expect("the engine is there");
    let master = far.master();

    far.sshd.stop();
    assert!(ends(master), "the connection outlives what it is to");
    let away = far.open(&engine.socket()).expect_err("nothing listens");
    far.sshd.start();
    let back = far.open(&engine.socket()).expect("the engine is there");

    assert_eq!(away.kind, Kind::NotAvailable);
    assert!(away.chain().contains("Connection refused"), "{}", away.chain());
    assert!(away.hint.expect("a hint").contains("is the machine up"));
    assert!(ask(&back).ends_with("OK"));
}

#[test]
fn a_full_log_does_not_grow_and_does_not_harm() {
    requires!(sshd);
    let (far, engine) = (Far::new(Sshd::new()), Engine::new());
    let socket = far.open(&engine.socket()).expect("the engine is there");
    let log = socket.with_file_name("log");
    std::fs::write(&log, vec![b'x'; 100_000]).expect("it is ours");

    far.open(&engine.socket()).expect("the engine is there");

    assert_eq!(std::fs::metadata(&log).expect("it is there").len(), 0);
    assert_eq!(far.sshd.logins(), 1);
}
