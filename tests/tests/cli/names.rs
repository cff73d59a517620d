//! A session key or the beginning of an id, wherever an id is taken.

use coracle_tests::{Home, requires};

/// The longest beginning two ids have in common.
fn shared<'a>(one: &'a str, other: &str) -> &'a str {
    let length = one.bytes().zip(other.bytes()).take_while(|(one, other)| one == other).count();
    &one[..length]
}

#[test]
fn a_key_names_its_sandbox_on_every_verb() {
    requires!(native);
    let home = Home::new();
    let sandbox = home.open_with(&["--key", "fix the bug"]);
    let key = "fix the bug";

    home.call(["fs", "write", key, "note"]).stdin("hello").succeed();
    home.call(["cp", "fix the bug:note", home.path().join("copy").to_str().expect("UTF-8")]).succeed();
    assert_eq!(std::fs::read(home.path().join("copy")).expect("it was copied"), b"hello");
    assert_eq!(home.call(["fs", "read", key, "note"]).succeed().text(), "hello");
    assert_eq!(home.call(["exec", key, "--", "cat", "note"]).succeed().text(), "hello");
    assert_eq!(home.call(["show", key, "--json"]).succeed().json()["sandbox_id"], sandbox);
    assert_eq!(home.call(["stats", key, "--json"]).succeed().json().to_string().matches(&sandbox).count(), 1);
    assert!(home.call(["events", "--sandbox", key]).succeed().text().contains(&sandbox));
    home.call(["exec", key, "--detach", "--id", "long", "--", "sleep", "1000"]).succeed();
    home.call(["stop", key, "long", "--grace", "0"]).succeed();
    home.call(["wait", key, "long"]).run().expect_code(143);
    home.call(["logs", key, "long"]).succeed();
    home.call(["fs", "move", key, "note", "moved"]).succeed();
    for words in [&["fs", "stat", key, "moved"][..], &["fs", "list", key], &["fs", "delete", key, "moved"]] {
        home.call(words).succeed();
    }
    home.call(["exec", key, "--detach", "--", "sleep", "1000"]).succeed();
    for words in [&["kill", key][..], &["inspect", key], &["network", key, "none"], &["show", key]] {
        home.call(words).succeed();
    }
    for verb in ["pause", "resume", "claim", "snapshot", "fork", "release", "claim", "close"] {
        home.call([verb, key]).succeed();
    }
    assert_eq!(home.call(["show", key, "--json"]).succeed().json()["state"], "destroyed");
    assert_eq!(home.call(["exec", key, "--json", "true"]).run().error_kind(), "not_found");
}

#[test]
fn the_beginning_of_an_id_is_enough_while_it_fits_one() {
    requires!(native);
    let home = Home::new();
    let first = home.open();
    let second = home.open_with(&["--key", "web"]);
    let both = shared(&first, &second);
    let unique = &first[..=both.len()];

    for name in [unique, unique.trim_start_matches("sbx_")] {
        assert_eq!(home.call(["show", name, "--json"]).succeed().json()["sandbox_id"], first, "{name}");
    }
    let error = home.call(["close", both, "--json"]).run().error();

    assert_eq!(error["kind"], "invalid");
    let hint = error["hint"].as_str().expect("a hint");
    assert!(hint.contains(&first) && hint.contains(&second) && hint.contains("web"), "{hint}");
    assert_eq!(home.live().len(), 2, "nothing was closed");
}

#[test]
fn an_exact_key_goes_before_the_beginning_of_an_id() {
    requires!(native);
    let home = Home::new();
    let first = home.open();
    // The beginning of the first one's id is the second one's key.
    let key = first.trim_start_matches("sbx_")[..4].to_owned();
    let second = home.open_with(&["--key", &key]);

    assert_eq!(home.call(["show", &key, "--json"]).succeed().json()["sandbox_id"], second);
    assert_eq!(home.call(["show", &first, "--json"]).succeed().json()["sandbox_id"], first);
}

#[test]
fn what_has_ended_is_found_where_nothing_live_fits() {
    requires!(native);
    let home = Home::new();
    let ended = home.open();
    home.call(["exec", &ended, "--id", "greet", "--", "echo", "hi"]).succeed();
    home.call(["close", &ended]).succeed();
    let live = home.open();

    let beginning = shared(&ended, &live);
    assert_eq!(home.call(["show", beginning, "--json"]).succeed().json()["sandbox_id"], live);
    let name = &ended[..=beginning.len()];
    assert_eq!(home.call(["show", name, "--json"]).succeed().json()["sandbox_id"], ended);
    assert_eq!(home.call(["logs", name, "gre"]).succeed().text(), "hi\n");
}

#[test]
fn the_beginning_of_an_exec_is_enough_within_its_sandbox() {
    requires!(native);
    let home = Home::new();
    let sandbox = home.open();
    for id in ["build-app", "build-docs", "test"] {
        home.call(["exec", &sandbox, "--id", id, "--", "echo", id]).succeed();
    }

    assert_eq!(home.call(["logs", &sandbox, "build-a"]).succeed().text(), "build-app\n");
    assert_eq!(home.call(["logs", &sandbox, "t"]).succeed().text(), "test\n");
    let error = home.call(["wait", &sandbox, "build", "--json"]).run().error();
    assert_eq!(error["kind"], "invalid");
    let hint = error["hint"].as_str().expect("a hint");
    assert!(hint.contains("build-app") && hint.contains("build-docs"), "{hint}");
    assert_eq!(home.call(["logs", &sandbox, "none", "--json"]).run().error_kind(), "not_found");
}

#[test]
fn a_name_that_fits_nothing_is_not_found_and_a_hint_says_where_to_look() {
    requires!(native);
    let home = Home::new();
    home.open();

    for name in ["nothing", "sbx_nothing", "a key with spaces", "größe"] {
        let error = home.call(["show", name, "--json"]).run().error();
        assert_eq!(error["kind"], "not_found", "{name}");
        assert!(error["message"].as_str().is_some_and(|message| message.contains(name)), "{error}");
        assert!(error["hint"].is_string(), "{error}");
    }
    for name in ["", "sbx_"] {
        home.call(["close", name]).run().expect_code(125);
    }
    assert_eq!(home.live().len(), 1);
}

#[test]
fn a_local_path_with_a_colon_is_written_with_a_slash() {
    requires!(native);
    let home = Home::new();
    home.open_with(&["--key", "web"]);
    let local = home.path().join("a:b");
    std::fs::write(&local, "odd").expect("the home is ours");

    home.call(["cp", local.to_str().expect("UTF-8"), "web:c:d"]).succeed();

    assert_eq!(home.call(["fs", "read", "web", "c:d"]).succeed().text(), "odd");
    let refused = home.call(["cp", "a:b", "web:c", "--json"]).run().error();
    assert!(refused["hint"].as_str().is_some_and(|hint| hint.contains("./")), "{refused}");
}

/// Such a key could not reach its sandbox: a whole id always means the sandbox that has it.
#[test]
fn a_key_that_could_be_an_id_is_refused() {
    requires!(native);
    let home = Home::new();
    let other = home.open();

    for verb in ["open", "run"] {
        let said =
            home.call([verb, "--name", &other].into_iter().chain((verb == "run").then_some("true"))).run();
        let said = said.expect_code(125);
        assert!(said.stderr.contains("which could be a sandbox's id"), "{said}");
        assert!(said.stderr.contains("hint: choose a name"), "{said}");
    }
    let input = serde_json::json!({"session_key": other});
    assert_eq!(home.operation("sandbox_open", &input).run().error_kind(), "invalid");
    home.open_with(&["--key", "sbx_mine"]);
}
