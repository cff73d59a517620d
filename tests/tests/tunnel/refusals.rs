//! Refusals of ssh or the other machine are shown in ssh's words with a hint, and leave nothing behind.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use coracle_core::{Error, Kind};
use coracle_tests::engines::sshd::{HOST, Sshd};
use coracle_tests::requires;

use crate::engine::Engine;
use crate::far::{Far, ends};

/// Fails to open the way, and checks what every failure has in common.
fn refused(far: &Far, engine: &Engine) -> Error {
    unusable(far, far.open(&engine.socket()).expect_err("it is refused"))
}

fn unusable(far: &Far, error: Error) -> Error {
    assert_eq!(error.kind, Kind::NotAvailable, "{}", error.chain());
    assert!(far.masters().into_iter().all(ends), "a connection is left");
    error
}

fn says(error: &Error, words: &str, hint: &str) {
    let found = error.hint.as_deref().unwrap_or_default();
    assert!(error.chain().contains(words), "{}", error.chain());
    assert!(found.contains(hint), "{found}");
}

#[test]
fn a_machine_whose_key_is_unknown_is_refused() {
    requires!(sshd);
    let (far, engine) = (Far::new(Sshd::new()), Engine::new());
    far.sshd.forget_its_key();

    let error = refused(&far, &engine);

    says(&error, "Host key verification failed", "compare the fingerprint");
    assert_eq!(far.sshd.logins(), 0);
}

#[test]
fn a_machine_whose_key_has_changed_is_refused() {
    requires!(sshd);
    let (mut far, engine) = (Far::new(Sshd::new()), Engine::new());
    far.sshd.stop();
    far.sshd.change_its_key();
    far.sshd.start();

    let error = refused(&far, &engine);

    says(&error, "REMOTE HOST IDENTIFICATION HAS CHANGED", "ssh-keygen -R");
    far.sshd.trust_its_key();
    far.open(&engine.socket()).expect("it is trusted now");
}

#[test]
fn a_machine_that_refuses_us_asks_for_no_password() {
    requires!(sshd);
    let (far, engine) = (Far::new(Sshd::new()), Engine::new());
    far.sshd.admit_nobody();

    let error = refused(&far, &engine);

    says(&error, "Permission denied", "without a question");
}

#[test]
fn an_unknown_host_name_is_said_to_be_unknown() {
    requires!(sshd);
    let far = Far::new(Sshd::new());

    let error = unusable(&far, far.open_place("ssh://nobody.invalid").expect_err("no such name"));

    says(&error, "Could not resolve hostname", "no such name");
}

#[test]
fn a_path_where_nothing_listens_is_no_engine() {
    requires!(sshd);
    let far = Far::new(Sshd::new());
    let nothing = tempfile::tempdir().expect("a directory can be made");

    let error = far.open(&nothing.path().join("engine.sock")).expect_err("nothing listens");

    says(&unusable(&far, error), "open failed", "no such socket is there");
}

#[test]
fn a_socket_of_something_else_is_no_engine() {
    requires!(sshd);
    let (far, other) = (Far::new(Sshd::new()), Engine::saying(b"220 mail.example ESMTP\r\n"));

    let error = refused(&far, &other);

    says(&error, "is no engine", "name the socket");
}

#[test]
fn a_machine_without_an_engine_is_said_to_have_none() {
    requires!(sshd);
    let far = Far::new(Sshd::new());

    let error = unusable(&far, far.open_place(&format!("ssh://{HOST}")).expect_err("none is there"));

    says(&error, "found no engine on `far`", "start the engine there");
}

#[test]
fn an_sshd_that_forbids_forwarding_is_said_to() {
    requires!(sshd);
    let (far, engine) = (Far::new(Sshd::with("AllowStreamLocalForwarding no")), Engine::new());

    let error = refused(&far, &engine);

    says(&error, "open failed", "AllowStreamLocalForwarding yes");
}

#[test]
fn a_program_that_is_not_there_is_named() {
    requires!(sshd);
    let (mut far, engine) = (Far::new(Sshd::new()), Engine::new());
    far.ssh = vec!["/nowhere/ssh".to_owned()];

    let error = refused(&far, &engine);

    says(&error, "could not start `/nowhere/ssh`", "CORACLE_SSH");
}

/// In a directory every user may write to, another user may have been there first.
#[test]
fn a_directory_that_is_not_ours_alone_is_not_used() {
    requires!(sshd);
    let (far, engine) = (Far::new(Sshd::new()), Engine::new());
    let open_to_others = |path: &Path| {
        std::fs::create_dir(path).expect("the directory is ours");
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).expect("it is ours");
    };
    open_to_others(&far.runtime());

    let shared = refused(&far, &engine);
    std::fs::remove_dir(far.runtime()).expect("it is empty");
    std::os::unix::fs::symlink("/tmp", far.runtime()).expect("the directory is ours");
    let led_astray = refused(&far, &engine);
    std::fs::remove_file(far.runtime()).expect("it is ours");
    std::fs::create_dir(far.runtime()).expect("ours");
    std::fs::set_permissions(far.runtime(), std::fs::Permissions::from_mode(0o700)).expect("ours");
    std::os::unix::fs::chown(far.runtime(), Some(64_321), None).expect("we are root");
    let anothers = refused(&far, &engine);

    for error in [shared, led_astray, anothers] {
        says(&error, "could not use", "another user");
    }
    assert_eq!(far.sshd.logins(), 0);
}
