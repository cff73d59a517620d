//! Verbs people know from elsewhere, and lists of what there is.

use std::time::Duration;

use coracle_tests::{Home, SOON, eventually, requires};
use serde_json::Value;

fn lines(text: &str) -> Vec<&str> {
    text.lines().collect()
}

#[test]
fn ps_prints_ids_alone_and_filters() {
    requires!(native);
    let home = Home::new();
    let web = home.open_with(&["--key", "web", "--label", "team=a"]);
    let db = home.open_with(&["--key", "db", "--label", "team=b"]);
    let ended = home.open();
    home.call(["close", &ended]).succeed();
    home.call(["pause", "db"]).succeed();
    let listed = |flags: &[&str]| {
        let line = [&["ps", "-q"], flags].concat();
        home.call(line).succeed().text().lines().map(str::to_owned).collect::<Vec<_>>()
    };

    assert_eq!(listed(&[]), [web.clone(), db.clone()]);
    assert_eq!(listed(&["-a"]), [web.clone(), db.clone(), ended.clone()]);
    assert_eq!(listed(&["--filter", "name=web"]), [web.as_str()]);
    assert_eq!(listed(&["-f", "state=paused"]), [db.as_str()]);
    assert_eq!(listed(&["-f", "label=team=a", "-f", "label=team=b"]), [web.clone(), db.clone()]);
    assert_eq!(listed(&["-f", "label=team=a", "-f", "key=db"]), [""; 0]);
    assert_eq!(listed(&["--filter", "status=destroyed"]), [ended], "who asks for such means all");
    let error = home.call(["ps", "--filter", "status=running", "--json"]).run().error();
    assert!(error["hint"].as_str().is_some_and(|hint| hint.contains("`ready`")), "{error}");
    let error = home.call(["ps", "--filter", "colour=red", "--json"]).run().error();
    assert_eq!(error["message"], "`--filter`: there is no field `colour`");
    assert_eq!(error["hint"], "FIELD is one of id, key, state, image, backend, owner, label");
    home.call(["resume", "db"]).succeed();
}

#[test]
fn several_are_closed_at_once_and_one_that_fails_keeps_no_other() {
    requires!(native);
    let home = Home::new();
    let (first, second) = (home.open(), home.open_with(&["--key", "web"]));
    let third = home.open();

    let refused = home.call(["rm", "-f", &first, "nothing", "web"]).run().expect_code(125);
    assert!(refused.stderr.contains("nothing"), "{refused}");
    assert_eq!(home.live().len(), 1);
    let closed = home.call(["close", &third, &second, "--json"]).succeed().json();
    assert_eq!(closed[0]["name"], third);
    assert_eq!(closed[1]["ok"], true);
    assert!(home.live().is_empty());
}

#[test]
fn kill_ends_what_runs_and_leaves_the_sandbox() {
    requires!(native);
    let home = Home::new();
    for name in ["a", "b"] {
        home.call(["run", "-d", "--name", name, "sleep", "1000"]).succeed();
    }

    let told = home.call(["kill", "a", "b", "--json"]).succeed().json();
    assert_eq!(told[0]["signalled"], serde_json::json!(["main"]));
    for name in ["a", "b"] {
        home.call(["wait", name]).run().expect_code(143);
        home.call(["exec", name, "true"]).succeed();
    }
    home.call([
        "exec",
        "a",
        "-d",
        "--id",
        "trap",
        "sh",
        "-c",
        "trap 'exit 9' USR1; echo up; while :; do sleep 0.01; done",
    ])
    .succeed();
    let is_up = || home.call(["logs", "a", "trap"]).succeed().text() == "up\n";
    assert!(eventually(SOON, is_up).is_some());
    let told = home.call(["kill", "-s", "USR1", "a", "--json"]).succeed().json();
    assert_eq!(told[0]["signalled"], serde_json::json!(["trap"]), "one is a list, too");
    home.call(["wait", "a", "trap"]).run().expect_code(9);
    home.call(["kill", "--signal", "NOSUCH", "a"]).run().expect_code(125);
}

#[test]
fn stop_without_a_command_stops_all() {
    requires!(native);
    let home = Home::new();
    let sandbox = home.open();
    for id in ["one", "two"] {
        home.call(["exec", &sandbox, "-d", "--id", id, "sleep", "1000"]).succeed();
    }

    let told = home.call(["stop", &sandbox, "--json"]).succeed().json();
    assert_eq!(
        (&told["sandbox_id"], &told["signalled"]),
        (&sandbox.as_str().into(), &serde_json::json!(["one", "two"]))
    );

    for id in ["one", "two"] {
        home.call(["wait", &sandbox, id]).run().expect_code(143);
    }
    let error = home.call(["wait", &sandbox, "--json"]).run().error();
    let listed = "one (`sleep 1000`)\ntwo (`sleep 1000`)";
    assert!(error["hint"].as_str().is_some_and(|hint| hint.contains(listed)), "{error}");
    assert_eq!(error["details"]["candidates"], serde_json::json!(["one", "two"]));
}

#[test]
fn the_graces_of_several_commands_run_at_the_same_time() {
    requires!(native);
    let home = Home::new();
    let sandbox = home.open();
    let deaf = "trap '' TERM; echo up; while :; do sleep 0.05; done";
    let ids = ["a", "b", "c", "d", "e", "f"];
    for id in ids {
        home.call(["exec", &sandbox, "-d", "--id", id, "sh", "-c", deaf]).succeed();
        assert!(eventually(SOON, || home.call(["logs", &sandbox, id]).succeed().text() == "up\n").is_some());
    }

    let stopped = home.call(["stop", &sandbox, "--grace", "5s"]).succeed();

    assert!(stopped.elapsed < Duration::from_secs(20), "{:?} for six graces of 5 s", stopped.elapsed);
}

#[test]
fn the_last_lines_of_output_are_enough() {
    requires!(native);
    let home = Home::new();
    let sandbox = home.open();
    home.call(["exec", &sandbox, "--id", "count", "seq", "1", "1000"]).succeed();
    let script = "seq 1 10; while ! test -e go; do sleep 0.01; done; seq 11 13";
    home.call(["exec", &sandbox, "-d", "--id", "later", "sh", "-c", script]).succeed();
    let logs = |flags: &[&str]| home.call([&["logs", &sandbox], flags].concat()).succeed().text().to_owned();

    assert_eq!(logs(&["count", "--tail", "3"]), "998\n999\n1000\n");
    assert_eq!(logs(&["count", "-n", "0"]), "");
    assert_eq!(lines(&logs(&["count", "--tail", "5000"])).len(), 1000);
    assert!(eventually(SOON, || logs(&["later", "--tail", "1"]) == "10\n").is_some());
    let following = home.call(["logs", &sandbox, "later", "-f", "--tail", "2"]).start();
    following.wait_for(|output| output == b"9\n10\n");
    home.call(["exec", &sandbox, "touch", "go"]).succeed();
    assert_eq!(following.finish().text(), "9\n10\n11\n12\n13\n");
}

#[test]
fn verbs_from_elsewhere_do_what_ours_do() {
    requires!(native);
    let home = Home::new();
    let sandbox = home.open_with(&["--key", "web"]);

    let inspected = home.call(["inspect", "web"]).succeed().json();
    assert_eq!(inspected["sandbox_id"], sandbox);
    assert_eq!(
        home.call(["images", "--json"]).succeed().json(),
        home.call(["image", "list", "--json"]).succeed().json()
    );
    let version = home.call(["version"]).succeed().text().to_owned();
    assert_eq!(version, home.call(["--version"]).succeed().text());
    let told = home.call(["version", "--json"]).succeed().json();
    assert!(version.contains(told["version"].as_str().expect("a version")));
    assert_eq!(
        home.call(["pull", "127.0.0.1:1/none:1", "--json"]).run().error().get("kind").map(Value::is_string),
        Some(true)
    );
}

#[test]
fn verbs_of_other_tools_are_answered_with_ours() {
    let home = Home::new();

    for (line, hint) in [
        (&["ls"][..], "did you mean `coracle ps`?"),
        (&["--run", "run_a", "list"], "did you mean `coracle ps`?"),
        (&["delete", "web"], "did you mean `coracle close`?"),
        (&["destroy", "web"], "did you mean `coracle close`?"),
        (&["unpause", "web"], "did you mean `coracle resume`?"),
        (&["rmi", "app:1"], "did you mean `coracle image remove`?"),
        (&["create"], "did you mean `coracle open`?"),
        (&["commit", "web"], "did you mean `coracle snapshot`?"),
        (&["build", "-t", "app:1", "."], "did you mean `coracle image build`?"),
        (&["attach", "web"], "did you mean `coracle logs --follow`?"),
        (&["port", "web"], "did you mean `coracle forward`?"),
        (&["start", "web"], "a sandbox needs no start; `coracle exec` runs another command"),
    ] {
        let verb = if line[0] == "--run" { line[2] } else { line[0] };
        let said = home.call(line).run().expect_code(125);
        assert_eq!(said.stderr, format!("error: there is no verb `{verb}`\nhint: {hint}\n"));
        let error = home.call([&["--json"], line].concat()).run().error();
        assert_eq!(error["hint"], hint);
    }
    let nested = home.call(["image", "create"]).run().expect_code(125);
    assert!(!nested.stderr.contains("coracle open"), "{nested}");
}

#[test]
fn ls_and_rm_are_short_for_list_and_delete() {
    requires!(native);
    let home = Home::new();
    home.call(["run", "-d", "--name", "web", "-v", "cache:/cache", "touch", "note"]).succeed();
    home.call(["wait", "web"]).succeed();

    assert_eq!(home.call(["fs", "ls", "web", "--json"]).succeed().json()[0]["path"], "note");
    home.call(["fs", "rm", "web", "note"]).succeed();
    assert_eq!(home.call(["fs", "ls", "web", "--json"]).succeed().json(), serde_json::json!([]));
    home.call(["close", "web"]).succeed();
    assert!(home.call(["volume", "ls"]).succeed().text().contains("cache"));
    home.call(["volume", "rm", "cache"]).succeed();
    assert_eq!(home.call(["image", "ls", "--json"]).succeed().json(), serde_json::json!([]));
    assert_eq!(home.call(["image", "rm", "nothing:1", "--json"]).run().error_kind(), "image_not_found");
}
