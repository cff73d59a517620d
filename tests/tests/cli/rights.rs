//! File operations have the rights of the user commands run as.

use coracle_tests::http::Request;
use coracle_tests::{Daemon, Home, requires};
use serde_json::json;

fn errno(home: &Home, words: &[&str]) -> String {
    let error = home.call(words.iter().chain(&["--json"])).stdin("x").run().error();
    error["details"]["errno"].as_str().unwrap_or_else(|| panic!("no errno: {error}")).to_owned()
}

#[test]
fn what_cat_is_refused_reading_is_refused() {
    requires!(native);
    let home = Home::new();
    let sandbox = home.open();
    let script = "echo secret > closed; chmod 000 closed; mkdir shut; echo in > shut/f; chmod 600 shut";
    home.exec(&sandbox, ["sh", "-c", script]).succeed();
    for path in ["closed", "shut/f"] {
        assert_ne!(home.exec(&sandbox, ["cat", path]).run().code(), Some(0), "{path}");

        assert_eq!(errno(&home, &["fs", "read", &sandbox, path]), "EACCES");
        home.call(["fs", "read", &sandbox, path, "--user", "root"]).succeed();
    }
    assert_eq!(errno(&home, &["fs", "stat", &sandbox, "shut/f"]), "EACCES");
    assert_eq!(errno(&home, &["fs", "write", &sandbox, "shut/new"]), "EACCES");
    assert_eq!(home.call(["fs", "read", &sandbox, "closed", "-u", "root"]).succeed().text(), "secret\n");
}

#[test]
fn a_named_users_files_are_that_users() {
    requires!(native);
    let home = Home::new();
    let sandbox = home.open();
    home.exec(&sandbox, ["sh", "-c", "mkdir -m 777 /tmp/all; echo r > root; chmod 600 root; chmod 755 ."])
        .succeed();
    let by = |words: &[&str]| home.call(words.iter().chain(&["--user", "1000:1001"]));

    by(&["fs", "write", &sandbox, "/tmp/all/deep/file"]).stdin("x").succeed();
    by(&["cp", "-", &format!("{sandbox}:/tmp/all/streamed")]).stdin("x").succeed();

    let owners = "stat -c %u:%g /tmp/all/deep /tmp/all/deep/file /tmp/all/streamed | sort -u";
    assert_eq!(home.exec(&sandbox, ["sh", "-c", owners]).succeed().text(), "1000:1001\n");
    for words in [
        ["fs", "read", &sandbox, "root"].as_slice(),
        &["fs", "write", &sandbox, "new"],
        &["fs", "write", &sandbox, "root"],
        &["fs", "delete", &sandbox, "root"],
        &["fs", "move", &sandbox, "root", "moved"],
        &["cp", &format!("{sandbox}:root"), "-"],
    ] {
        let words: Vec<&str> = words.iter().copied().chain(["--user", "1000:1001"]).collect();
        assert_eq!(errno(&home, &words), "EACCES", "{words:?}");
    }
    // The next request on the same guest is root's again.
    assert_eq!(home.call(["fs", "read", &sandbox, "root"]).succeed().text(), "r\n");
    by(&["fs", "list", &sandbox, "."]).succeed();
}

#[test]
fn every_door_takes_the_user() {
    requires!(native);
    let home = Home::new();
    let sandbox = home.open();
    home.exec(&sandbox, ["sh", "-c", "echo r > root; chmod 600 root"]).succeed();
    let refused = |operation: &str, mut input: serde_json::Value| {
        input["sandbox_id"] = json!(sandbox);
        input["user"] = json!("1000");
        home.operation(operation, &input).run().error()["details"]["errno"].clone()
    };

    assert_eq!(refused("sandbox_fs_read", json!({"path": "root"})), "EACCES");
    assert_eq!(refused("sandbox_fs_write", json!({"path": "new", "contents": "x"})), "EACCES");
    assert_eq!(refused("sandbox_fs_delete", json!({"path": "root"})), "EACCES");
    assert_eq!(refused("sandbox_fs_move", json!({"from": "root", "to": "x"})), "EACCES");
    let daemon = Daemon::start(&home);
    let files = format!("/v1/sandboxes/{sandbox}/files?path=root&user=");
    for (method, user, status) in [("GET", "1000", 400), ("GET", "root", 200), ("PUT", "1000", 400)] {
        let answer = Request::new(method, &format!("{files}{user}")).body("x").send(&daemon.unix());
        assert_eq!(answer.status, status, "{method} {user}: {answer}");
    }
    daemon.end();
    let unknown = json!({"sandbox_id": sandbox, "path": ".", "user": "nobody-here"});
    assert_eq!(home.operation("sandbox_fs_list", &unknown).run().error_kind(), "invalid");
    assert_eq!(home.operation("sandbox_fs_stat", &unknown).run().error_kind(), "invalid");
}

#[test]
fn the_files_of_a_run_are_the_users_it_runs_as() {
    requires!(native);
    let home = Home::new();
    let input = json!({
        "cmd": ["sh", "-c", "stat -c %u f d d/g; echo more >> f"],
        "files": {"f": "x", "d/g": "y"},
        "user": "1000",
    });

    let ran = home.operation("sandbox_run", &input).succeed().json();

    assert_eq!((&ran["stdout"], &ran["exit_code"]), (&json!("1000\n1000\n1000\n"), &json!(0)), "{ran}");
}

#[test]
fn a_file_that_is_replaced_hands_on_its_permissions() {
    requires!(native);
    let home = Home::new();
    let sandbox = home.open();
    home.exec(
        &sandbox,
        ["sh", "-c", "echo old > run.sh; chmod 750 run.sh; echo old > closed; chmod 400 closed"],
    )
    .succeed();
    let mode =
        |path: &str| home.exec(&sandbox, ["stat", "-c", "%a", path]).succeed().text().trim().to_owned();

    home.call(["fs", "write", &sandbox, "run.sh"]).stdin("new").succeed();
    assert_eq!(
        (mode("run.sh").as_str(), home.call(["fs", "read", &sandbox, "run.sh"]).succeed().text()),
        ("750", "new")
    );
    home.call(["fs", "write", &sandbox, "run.sh", "--mode", "0600"]).stdin("new").succeed();
    assert_eq!(mode("run.sh"), "600");
    home.call(["fs", "write", &sandbox, "fresh"]).stdin("new").succeed();
    assert_eq!(mode("fresh"), "644");
    // What may not be written to is not replaced.
    assert_eq!(errno(&home, &["fs", "write", &sandbox, "closed"]), "EACCES");
    home.call(["fs", "write", &sandbox, "/tmp/mine", "-u", "1000"]).stdin("x").succeed();
    home.call(["fs", "write", &sandbox, "/tmp/mine", "-u", "root"]).stdin("y").succeed();
    assert_eq!(home.exec(&sandbox, ["stat", "-c", "%u", "/tmp/mine"]).succeed().text(), "1000\n");
}

#[test]
fn writing_follows_a_link_within_the_sandbox() {
    requires!(native);
    let home = Home::new();
    let sandbox = home.open();
    let script = "mkdir -p d/e; echo old > d/e/f; chmod 640 d/e/f; ln -s d/e way; ln -s way/f first; ln -s first second; \
                  ln -s ../made d/e/dangling; ln -s /tmp/out absolute; ln -s ../../tmp/out up; ln -s loop loop";
    home.exec(&sandbox, ["sh", "-c", script]).succeed();
    let write = |path: &str| home.call(["fs", "write", &sandbox, path]).stdin(path.as_bytes());

    write("second").succeed();
    write("way/dangling").succeed();
    write("/workspace/absolute").succeed();

    let shown = "cat d/e/f; echo; stat -c %a d/e/f; cat d/made; echo; cat /tmp/out; echo; readlink second first absolute";
    let shown = home.exec(&sandbox, ["sh", "-c", shown]).succeed();
    let expected = "second\n640\nway/dangling\n/workspace/absolute\nfirst\nway/f\n/tmp/out\n";
    assert_eq!(shown.text(), expected);
    for path in ["absolute", "up"] {
        assert_eq!(errno(&home, &["fs", "write", &sandbox, path]), "EXDEV", "{path}");
    }
    assert_eq!(errno(&home, &["fs", "write", &sandbox, "loop"]), "ELOOP");
    assert_eq!(home.exec(&sandbox, ["cat", "/tmp/out"]).succeed().text(), "/workspace/absolute");
}

#[test]
fn without_root_there_is_one_user() {
    requires!(native);
    let home = Home::ordinary();
    let sandbox = home.open();
    home.exec(&sandbox, ["sh", "-c", "echo secret > closed; chmod 000 closed"]).succeed();

    assert_eq!(errno(&home, &["fs", "read", &sandbox, "closed"]), "EACCES");
    assert_eq!(home.call(["fs", "read", &sandbox, "closed", "-u", "root"]).succeed().text(), "secret\n");
    assert_eq!(errno(&home, &["fs", "read", &sandbox, "closed", "-u", "1000"]), "EPERM");
    home.call(["fs", "write", &sandbox, "new"]).stdin("x").succeed();
}

#[test]
fn what_may_not_be_deleted_stays_where_and_as_it_is() {
    requires!(native);
    let home = Home::new();
    let sandbox = home.open();
    for (file, user) in [("a/b/mine", "1000"), ("a/b/theirs/c/f", "root")] {
        home.call(["fs", "write", &sandbox, &format!("/tmp/t/{file}"), "--user", user]).stdin("x").succeed();
    }
    home.exec(&sandbox, ["sh", "-c", "mkdir -p /tmp/own/shut/in; chmod 500 /tmp/own/shut"]).succeed();

    let words = ["fs", "delete", "-r", &sandbox, "/tmp/t", "--user", "1000", "--json"];
    let refused = home.call(words).run().error();
    let shut = errno(&home, &["fs", "delete", "-r", &sandbox, "/tmp/own"]);

    assert_eq!(refused["details"]["errno"], "EACCES", "{refused}");
    assert!(refused.to_string().contains("`/tmp/t/a/b/theirs/c`"), "{refused}");
    assert_eq!(shut, "EACCES");
    let left = "find /tmp/t /tmp/own | sort; stat -c %a /tmp/t/a/b/theirs /tmp/own/shut";
    assert_eq!(
        home.exec(&sandbox, ["sh", "-c", left]).succeed().text(),
        "/tmp/own\n/tmp/own/shut\n/tmp/own/shut/in\n/tmp/t\n/tmp/t/a\n/tmp/t/a/b\n/tmp/t/a/b/theirs\n\
         /tmp/t/a/b/theirs/c\n/tmp/t/a/b/theirs/c/f\n755\n500\n"
    );
    home.call(["fs", "delete", "-r", &sandbox, "/tmp/t", "--user", "root"]).succeed();
}

#[test]
fn a_sandbox_for_a_user_the_image_does_not_know_is_refused_and_leaves_nothing() {
    requires!(native);
    let home = Home::new();

    for user in ["nosuchuser", "root:nosuchgroup", "99999"] {
        for words in
            [&["open", "-u", user][..], &["run", "-u", user, "true"], &["run", "-d", "-u", user, "true"]]
        {
            let said = home.call(words).run().expect_code(125);
            let message = format!("error: `--user` is `{user}`, a user the image does not have");
            assert!(said.stderr.starts_with(&message) && said.stderr.contains("hint: name users"), "{said}");
        }
        assert_eq!(home.call(["open", "--json", "-u", user]).run().error_kind(), "invalid");
    }
    assert!(home.live().is_empty(), "{:?}", home.live());
    let directory = tempfile::tempdir().expect("a directory can be made");
    let workspace = directory.path().to_str().expect("temporary paths are text");
    home.call(["open", "-u", "nosuchuser", "--workspace", workspace]).run().expect_code(125);
    for user in ["4242", "4242:4343", "nobody"] {
        home.call(["run", "-u", user, "true"]).succeed();
    }
    home.expect_no_orphans();
}
