//! What scripts read: lists of one shape, the sandbox of a one-shot, the end of a command.

use coracle_tests::{Home, requires};
use serde_json::json;

#[test]
fn every_verb_that_lists_things_prints_an_array_of_objects() {
    requires!(native);
    let home = Home::new();
    let sandbox = home.open_with(&["--volume", "data"]);
    home.exec(&sandbox, ["touch", "file"]).succeed();
    home.call(["snapshot", &sandbox]).succeed();
    home.call(["token", "create", "--tenant", "acme"]).succeed();

    for verb in [
        &["ps"][..],
        &["stats"],
        &["backends"],
        &["image", "list"],
        &["volume", "list"],
        &["token", "list"],
        &["fs", "list", &sandbox],
    ] {
        let listed = home.call(verb.iter().chain(&["--json"])).succeed().json();

        let things = listed.as_array().unwrap_or_else(|| panic!("{verb:?} is no array: {listed}"));
        assert!(!things.is_empty() && things.iter().all(serde_json::Value::is_object), "{verb:?}: {listed}");
    }
}

#[test]
fn a_one_shot_says_which_sandbox_it_ran_in() {
    requires!(native);
    let home = Home::new();

    let ran = home.call(["run", "--json", "--", "true"]).succeed().json();
    let asked = home.operation("sandbox_run", &json!({"cmd": ["true"]})).succeed().json();

    for told in [ran, asked] {
        let sandbox = told["sandbox_id"].as_str().unwrap_or_else(|| panic!("no sandbox: {told}"));
        let events = home.call(["events", "--sandbox", sandbox]).succeed();
        assert!(events.text().contains("opened"), "{events}");
    }
}

#[test]
fn reading_on_behind_the_end_of_a_command_says_that_and_how_it_ended() {
    requires!(native);
    let home = Home::new();
    let sandbox = home.open();
    home.call(["exec", &sandbox, "--detach", "--id", "e", "--", "sh", "-c", "echo out; exit 3"]).succeed();
    home.call(["wait", &sandbox, "e"]).run().expect_code(3);

    for close in [false, true] {
        if close {
            home.call(["close", &sandbox]).succeed();
        }
        let input = json!({"sandbox_id": sandbox, "exec_id": "e", "since_seq": 1});
        let read = home.operation("sandbox_exec_read", &input).succeed().json();
        assert_eq!(
            (&read["chunks"], &read["done"], &read["status"]),
            (&json!([]), &json!(true), &json!("completed"))
        );
        assert_eq!(
            (&read["exit_code"], &read["outcome"]),
            (&json!(3), &json!({"kind": "exited", "code": 3}))
        );

        let logs = home.call(["logs", &sandbox, "e", "--since-seq", "1"]).succeed();
        assert_eq!((logs.text(), logs.stderr.as_str()), ("", "note: exec `e` has ended: exited with 3\n"));
    }
}

#[test]
fn a_command_that_runs_is_not_said_to_have_ended() {
    requires!(native);
    let home = Home::new();
    let sandbox = home.open();
    home.call(["exec", &sandbox, "--detach", "--id", "e", "--", "sleep", "1000"]).succeed();

    let input = json!({"sandbox_id": sandbox, "exec_id": "e"});
    let read = home.operation("sandbox_exec_read", &input).succeed().json();
    let logs = home.call(["logs", &sandbox, "e"]).succeed();

    assert_eq!(
        (&read["done"], &read["status"], &read["outcome"]),
        (&json!(false), &json!("running"), &json!(null))
    );
    assert_eq!(logs.stderr, "");
}
