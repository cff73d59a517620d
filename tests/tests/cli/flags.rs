//! The short flags people type from habit, and what they mean here.

use coracle_tests::{Home, requires};

#[test]
fn v_mounts_a_directory_or_a_volume() {
    requires!(native);
    let home = Home::new();
    let place = tempfile::tempdir().expect("a directory");
    std::fs::write(place.path().join("note"), "hello").expect("it is ours");
    let directory = format!("{}:/data:ro", place.path().display());

    let read = home.call(["run", "-v", &directory, "sh", "-c", "cat /data/note; echo x > /data/x"]).run();
    assert_eq!((read.text(), read.code()), ("hello", Some(2)), "{read}");
    home.call(["run", "-v", "cache:/cache", "sh", "-c", "echo kept > /cache/a"]).succeed();
    assert_eq!(home.call(["run", "-v", "cache:/cache", "cat", "/cache/a"]).succeed().text(), "kept\n");
    let confused = home.call(["run", "--volume", "cache:/cache", "--json", "true"]).run().error();
    assert!(confused["hint"].as_str().is_some_and(|hint| hint.contains("-v SOURCE:TARGET")), "{confused}");
    home.call(["volume", "remove", "cache"]).succeed();
}

#[test]
fn w_is_the_directory_and_u_the_user() {
    requires!(native);
    let home = Home::new();
    let sandbox = home.open_with(&["-w", "/tmp"]);

    assert_eq!(home.call(["exec", &sandbox, "pwd"]).succeed().text(), "/tmp\n");
    assert_eq!(home.call(["exec", "-w", "/usr", &sandbox, "pwd"]).succeed().text(), "/usr\n");
    assert_eq!(home.call(["exec", "--workdir", "/usr", &sandbox, "pwd"]).succeed().text(), "/usr\n");
    assert_eq!(home.call(["run", "-w", "/usr", "pwd"]).succeed().text(), "/usr\n");
    assert_eq!(home.call(["exec", "-u", "0", &sandbox, "id", "-u"]).succeed().text(), "0\n");
    let shell = home.call(["shell", &sandbox, "-w", "/usr", "-u", "0"]).stdin("pwd\nid -u\n").succeed();
    assert_eq!(shell.text(), "/usr\n0\n");
}

#[test]
fn m_is_the_memory() {
    requires!(native);
    let home = Home::new();

    let sandbox = home.open_with(&["-m", "256m"]);

    let shown = home.call(["show", &sandbox, "--json"]).succeed().json();
    assert_eq!(shown["limits"]["memory_mb"], 256);
}

#[test]
fn e_with_a_name_alone_passes_the_callers_variable_on() {
    requires!(native);
    let home = Home::new().env("GREETING", "hello world");
    let sandbox = home.open();
    let script = "echo \"$GREETING\"; echo \"${ABSENT-unset}\"";

    let verbs = [&["run"][..], &["exec", &sandbox]];
    for verb in verbs {
        let flags = ["-e", "GREETING", "-e", "ABSENT", "-e", "SET=x", "--"];
        let line = [verb, &flags, &["sh", "-c", script]].concat();
        let called = home.call(&line).succeed();
        assert_eq!(called.text(), "hello world\nunset\n", "{line:?}");
        assert!(called.stderr.contains("`ABSENT` is not set here"), "{called}");
    }
    let refused = home.call(["run", "-e", "hunter-2", "--json", "true"]).run();
    assert!(!refused.text().contains("hunter") && !refused.stderr.contains("hunter"), "{refused}");
    assert_eq!(refused.error_kind(), "invalid");
}

#[test]
fn a_name_is_a_key() {
    requires!(native);
    let home = Home::new();

    let sandbox = home.open_with(&["--name", "web"]);

    assert_eq!(home.open_with(&["--key", "web"]), sandbox);
    let refused = home.call(["run", "--name", "web", "--json", "true"]).run().error();
    assert_eq!(refused["kind"], "conflict");
    assert!(refused["message"].as_str().is_some_and(|message| message.contains(&sandbox)), "{refused}");
    assert_eq!(home.live().len(), 1, "a refused run removes nothing");
    let listed = home.call(["run", "--name", "other", "--rm", "true"]).succeed();
    assert_eq!(listed.text(), "");
    assert_eq!(home.live().len(), 1, "and one that ran is gone with its name");
}
