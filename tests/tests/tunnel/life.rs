//! One connection serves all calls, and ends when it is idle.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use coracle_backends::BackendConfig;
use coracle_backends::docker::tunnel;
use coracle_testing::sample;
use coracle_tests::engines::sshd::{HOST, Sshd};
use coracle_tests::requires;

use crate::engine::{Engine, ask};
use crate::far::{Far, ends};

#[test]
fn the_engine_answers_and_the_next_call_uses_the_same_connection() {
    requires!(sshd);
    let (far, engine) = (Far::new(Sshd::new()), Engine::new());

    let first = far.open(&engine.socket()).expect("the engine is there");
    let answer = ask(&first);
    let second = far.open(&engine.socket()).expect("the engine is there");

    assert!(answer.ends_with("OK"), "{answer}");
    assert_eq!(first, second);
    assert_eq!(far.sshd.logins(), 1);
}

#[test]
fn many_at_once_make_one_connection() {
    requires!(sshd);
    let (far, engine) = (Far::new(Sshd::new()), Engine::new());

    let sockets: Vec<_> = std::thread::scope(|scope| {
        let calls: Vec<_> = (0..8).map(|_| scope.spawn(|| far.open(&engine.socket()))).collect();
        calls.into_iter().map(|call| call.join().expect("no panic").expect("the engine is there")).collect()
    });

    assert!(sockets.iter().all(|socket| ask(socket).ends_with("OK")));
    assert_eq!(far.sshd.logins(), 1);
}

#[test]
fn no_other_user_may_use_the_connection() {
    requires!(sshd);
    let (far, engine) = (Far::new(Sshd::new()), Engine::new());

    let socket = far.open(&engine.socket()).expect("the engine is there");

    let mode = |path: &Path| path.symlink_metadata().expect("it is there").permissions().mode() & 0o777;
    let room = socket.parent().expect("it is in a directory");
    assert_eq!((mode(&far.runtime()), mode(room)), (0o700, 0o700));
    assert_eq!((mode(&socket), mode(&room.join("control"))), (0o600, 0o600));
}

#[test]
fn an_unused_connection_ends_by_itself() {
    requires!(sshd);
    let (mut far, engine) = (Far::new(Sshd::new()), Engine::new());
    // The first that is said counts for ssh, so this comes before our own ten minutes.
    far.ssh.extend(["-o".to_owned(), "ControlPersist=1".to_owned()]);

    let socket = far.open(&engine.socket()).expect("the engine is there");
    let master = far.master();

    assert!(ends(master), "the master is still there");
    assert_eq!(far.open(&engine.socket()).expect("it is made again"), socket);
    assert_eq!(far.sshd.logins(), 2);
}

#[test]
fn closing_ends_every_connection_and_leaves_nothing() {
    requires!(sshd);
    let (far, one, other) = (Far::new(Sshd::new()), Engine::new(), Engine::new());
    far.open(&one.socket()).expect("the engine is there");
    far.open(&other.socket()).expect("the engine is there");
    let masters = far.masters();

    tunnel::close_all(&far.runtime()).expect("they end");
    tunnel::close_all(&far.runtime()).expect("nothing is left to end");

    assert_eq!(masters.len(), 2);
    assert!(masters.into_iter().all(ends));
    assert!(!far.runtime().exists());
}

#[test]
fn a_machine_that_is_not_told_where_its_engine_is_finds_it_and_that_is_remembered() {
    requires!(sshd);
    let (mut sshd, engine, moved) = (Sshd::new(), Engine::new(), Engine::new());
    let restart = |sshd: &mut Sshd| {
        sshd.stop();
        sshd.start();
    };
    sshd.put_engine("/run/docker.sock", &engine.socket());
    restart(&mut sshd);
    let mut far = Far::new(sshd);
    let address = format!("ssh://{HOST}");

    let first = ask(&far.open_place(&address).expect("docker is found"));
    // Gone from the first place, and podman's is the last that is looked at.
    far.sshd.put_engine("/run/podman/podman.sock", &moved.socket());
    restart(&mut far.sshd);
    let second = ask(&far.open_place(&address).expect("podman is found"));
    let asked = far.sshd.logins();
    restart(&mut far.sshd);
    far.open_place(&address).expect("it is remembered");

    assert!(first.ends_with("OK") && second.ends_with("OK"));
    assert_eq!((asked, far.sshd.logins()), (2, 1), "asked again when it had moved, and only then");
}

#[test]
fn users_and_ports_may_be_said_instead_of_written_into_the_settings_of_ssh() {
    requires!(sshd);
    let (far, engine) = (Far::new(Sshd::new()), Engine::new());
    let address = format!("ssh://root@127.0.0.1:{}{}", far.sshd.port(), engine.socket().display());

    let socket = far.open_place(&address).expect("the engine is there");

    assert!(ask(&socket).ends_with("OK"));
}

/// What a person forwards for their own sessions would be taken already, or appear twice.
#[test]
fn forwardings_in_the_users_settings_are_left_alone() {
    requires!(sshd);
    let (far, engine) = (Far::new(Sshd::new()), Engine::new());
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("loopback has free ports");
    let port = taken.local_addr().expect("it is bound").port();
    far.sshd.add_to_settings_of_ssh(&format!(
        " LocalForward 127.0.0.1:{port} localhost:1\n ExitOnForwardFailure yes\n RemoteCommand false\n"
    ));

    let socket = far.open(&engine.socket()).expect("the engine is there");

    assert!(ask(&socket).ends_with("OK"));
}

#[test]
fn sockets_have_short_names_however_long_the_home_is() {
    let mut config = BackendConfig::at(Path::new(&"/long".repeat(60)), sample::instance());
    config.engines.runtime_directory = Some("/also".repeat(20).into());

    let directory = tunnel::directory(&config);

    assert!(directory.as_os_str().len() < 40, "{}", directory.display());
    config.home = coracle_core::Home::at("/another");
    assert_ne!(tunnel::directory(&config), directory);
}
