//! Commands in an open sandbox: input, environment, ids, background processes, stopping.

use std::time::Duration;

use coracle_tests::terminal::{plain, terminal};
use coracle_tests::{Home, SOON, eventually, requires};
use rustix::process::Signal;

/// Who starts a server with `&` would look for it in vain.
#[test]
fn a_note_counts_the_processes_that_end_with_their_command() {
    requires!(native);
    let home = Home::new();
    let sandbox = home.open();
    let two = "sleep 1000 & sleep 1000 & exit 3";

    let said = home.exec(&sandbox, ["sh", "-c", two]).run().expect_code(3);
    let one_shot = home.call(["run", "sh", "-c", "sleep 1000 & true"]).succeed();
    let told = home.call(["exec", &sandbox, "--json", "sh", "-c", two]).run().expect_code(3).json();

    assert!(said.stderr.contains("note: 2 processes that the command left in the background"), "{said}");
    assert!(said.stderr.contains("--keep-background"), "{said}");
    assert!(one_shot.stderr.contains("note: a process that the command left"), "{one_shot}");
    assert!(one_shot.stderr.contains("`coracle run -d`"), "{one_shot}");
    assert_eq!(told["ended_background"], 2, "{told}");
}

#[test]
fn no_note_counts_processes_that_are_kept_or_end_by_themselves() {
    requires!(native);
    let home = Home::new();
    let sandbox = home.open();
    let is_quiet = |code: i32, words: &[&str]| {
        let said = home.call(["exec", &sandbox].iter().chain(words)).run().expect_code(code);
        !said.stderr.contains("background")
    };

    assert!(is_quiet(0, &["--keep-background", "sh", "-c", "sleep 1000 & true"]));
    assert!(is_quiet(124, &["--timeout", "200ms", "sh", "-c", "sleep 1000 & sleep 1000"]));
    assert!(is_quiet(137, &["sh", "-c", "kill -9 $$ & sleep 1000"]));
    // The writer learns of the reader's end when the shell has ended, or a moment later: longer only where the machine is so
    // busy that it does not run.
    for script in ["yes | head -1", "head -1 < <(yes)"] {
        let quiet = (0..20).filter(|_| is_quiet(0, &["bash", "-c", script])).count();
        assert!(quiet > 10, "{script}: {quiet} of 20");
    }
}

#[test]
fn a_command_gets_its_environment_directory_and_input() {
    requires!(native);
    let home = Home::new();
    let sandbox = home.open();

    let env =
        home.call(["exec", &sandbox, "-e", "COLOUR=deep blue", "--", "sh", "-c", "echo $COLOUR"]).succeed();
    assert_eq!(env.text(), "deep blue\n");

    let directory = home.call(["exec", &sandbox, "--cwd", "/tmp", "--", "pwd"]).succeed();
    assert_eq!(directory.text(), "/tmp\n");

    home.exec(&sandbox, ["mkdir", "below"]).succeed();
    let relative = home.call(["exec", &sandbox, "--cwd", "below", "--", "pwd"]).succeed();
    assert_eq!(relative.text(), "/workspace/below\n");

    let input = home.call(["exec", &sandbox, "-i", "--", "cat"]).stdin(vec![0xff; 300_000]).succeed();
    assert_eq!(input.stdout, vec![0xff; 300_000]);

    let none = home.exec(&sandbox, ["cat"]).stdin("not for you").succeed();
    assert_eq!(none.text(), "", "without -i standard input is empty");
}

#[test]
fn stdout_and_stderr_stay_apart() {
    requires!(native);
    let home = Home::new();

    let ran = home.call(["run", "--", "sh", "-c", "echo out; echo err >&2"]).succeed();

    assert_eq!((ran.text(), ran.stderr.contains("err")), ("out\n", true));
    assert!(!ran.text().contains("err"));
}

#[test]
fn the_same_exec_id_runs_once() {
    requires!(native);
    let home = Home::new();
    let sandbox = home.open();
    let count = ["exec", &sandbox, "--id", "once", "--", "sh", "-c", "echo run >> count; wc -l < count"];

    let first = home.call(count).succeed();
    let second = home.call(count).succeed();
    let other = home.call(["exec", &sandbox, "--json", "--id", "once", "--", "true"]).run().error();
    let detached = home.call(["exec", &sandbox, "--json", "-d", "--id", "once", "--", "true"]).run().error();

    assert_eq!((first.text(), second.text()), ("1\n", "1\n"));
    for refused in [other, detached] {
        assert_eq!(
            (&refused["kind"], &refused["hint"]),
            (&"conflict".into(), &"choose another `--id`".into())
        );
        let taken = "exec id `once` is taken by `sh -c echo run >> count; wc -l < count`";
        assert_eq!(refused["message"], taken);
    }
}

#[test]
fn an_exec_id_started_by_twenty_at_once_runs_once() {
    requires!(native);
    let home = Home::new();
    let sandbox = home.open();
    let command = ["exec", &sandbox, "--id", "race", "--", "sh", "-c", "echo run >> count; cat count"];

    let calls: Vec<_> = (0..20).map(|_| home.call(command).start()).collect();

    for call in calls {
        assert_eq!(call.finish().expect_code(0).text(), "run\n");
    }
}

#[test]
fn the_result_comes_with_the_leader_and_leftovers_die() {
    requires!(native);
    let home = Home::new();
    let sandbox = home.open();

    let left = home.exec(&sandbox, ["sh", "-c", "sleep 424242 & setsid sleep 424242 & echo done"]).succeed();
    assert_eq!(left.text(), "done\n");
    let dead = eventually(SOON, || home.census().named("424242").is_empty());
    assert!(dead.is_some(), "leftovers run on:\n{}", home.census().describe());

    let kept = home
        .call(["exec", &sandbox, "--keep-background", "--", "sh", "-c", "sleep 434343 & echo done"])
        .succeed();
    assert_eq!(kept.text(), "done\n");
    home.exec(&sandbox, ["true"]).succeed();
    assert_eq!(home.census().named("434343").len(), 1);
}

#[test]
fn stopping_ends_the_tree_and_says_stopped() {
    requires!(native);
    let home = Home::new();
    let sandbox = home.open();
    let stubborn = "trap '' TERM; setsid sleep 515151 & sleep 515151";
    home.call(["exec", &sandbox, "--detach", "--id", "stubborn", "--", "sh", "-c", stubborn]).succeed();
    eventually(SOON, || home.census().named("sleep 515151").len() >= 2).expect("both sleep");

    home.call(["stop", &sandbox, "stubborn"]).succeed();

    assert!(home.census().named("515151").is_empty(), "{}", home.census().describe());
    let waited = home.call(["wait", &sandbox, "stubborn", "--json"]).run();
    assert_eq!(waited.json()["outcome"]["kind"], "stopped");
    assert_eq!(home.call(["wait", &sandbox, "stubborn"]).run().code(), Some(143));
}

#[test]
fn an_interrupt_reaches_the_command_and_a_second_one_ends_it() {
    requires!(native);
    let home = Home::new();
    let sandbox = home.open();

    let polite = home
        .exec(&sandbox, ["sh", "-c", "trap 'echo bye; exit 5' INT; echo up; while :; do sleep 0.05; done"])
        .start();
    polite.wait_for(|output| output == b"up\n");
    polite.signal(Signal::INT);
    assert_eq!(polite.finish().expect_code(5).text(), "up\nbye\n");

    let stubborn =
        home.exec(&sandbox, ["sh", "-c", "trap '' INT TERM; echo up; while :; do sleep 0.05; done"]).start();
    stubborn.wait_for(|output| output == b"up\n");
    stubborn.signal(Signal::INT);
    std::thread::sleep(Duration::from_millis(100));
    stubborn.signal(Signal::INT);
    assert_eq!(stubborn.finish().code(), Some(143));
}

#[test]
fn the_operations_are_the_same_by_call() {
    requires!(native);
    let home = Home::new();
    let call = |operation: &str, input: serde_json::Value| home.operation(operation, &input).succeed().json();

    let opened = call("sandbox_open", serde_json::json!({"session_key": "by-call"}));
    let id = &opened["sandbox_id"];
    let written = call(
        "sandbox_fs_write",
        serde_json::json!({"sandbox_id": id, "path": "a/b.txt", "contents": "hello"}),
    );
    assert_eq!(written, serde_json::json!({"ok": true, "path": "/workspace/a/b.txt"}));
    let ran = call("sandbox_exec", serde_json::json!({"sandbox_id": id, "cmd": ["cat", "a/b.txt"]}));
    assert_eq!(
        (&ran["stdout"], &ran["exit_code"], &ran["status"]),
        (&"hello".into(), &0.into(), &"completed".into())
    );
    let read =
        call("sandbox_fs_read", serde_json::json!({"sandbox_id": id, "path": "a/b.txt", "max_bytes": 2}));
    assert_eq!(
        (&read["contents"], &read["truncated"], &read["size_bytes"]),
        (&"he".into(), &true.into(), &5.into())
    );

    let streamed =
        call("sandbox_exec", serde_json::json!({"sandbox_id": id, "cmd": ["echo", "hi"], "stream": true}));
    let exec = &streamed["exec_id"];
    let waited = call(
        "sandbox_exec_wait",
        serde_json::json!({"sandbox_id": id, "exec_id": exec, "timeout_seconds": 10}),
    );
    assert_eq!((&waited["done"], &waited["exit_code"]), (&true.into(), &0.into()));
    let output =
        call("sandbox_exec_read", serde_json::json!({"sandbox_id": id, "exec_id": exec, "since_seq": 0}));
    assert_eq!(output["chunks"], serde_json::json!([{"seq": 1, "stream": "stdout", "text": "hi\n"}]));
    assert_eq!(output["done"], true);

    assert_eq!(call("sandbox_close", serde_json::json!({"sandbox_id": id}))["ok"], true);
    let one_shot = call(
        "sandbox_run",
        serde_json::json!({"runtime": "python", "code": "import sys; print(open('in.txt').read(), sys.argv[1:])",
        "args": ["x"], "files": {"in.txt": "file"}, "timeout_seconds": 20}),
    );
    assert_eq!((&one_shot["ok"], &one_shot["stdout"]), (&true.into(), &"file ['x']\n".into()), "{one_shot}");
}

#[test]
fn every_operation_has_a_schema() {
    let home = Home::new();

    let schemas = home.call(["call", "--schema"]).succeed();

    for operation in [
        "sandbox_run",
        "sandbox_open",
        "sandbox_exec",
        "sandbox_exec_read",
        "sandbox_exec_wait",
        "sandbox_exec_stop",
        "sandbox_exec_write",
        "sandbox_fs_write",
        "sandbox_fs_read",
        "sandbox_fs_list",
        "sandbox_fs_delete",
        "sandbox_fs_stat",
        "sandbox_fs_move",
        "sandbox_close",
        "sandbox_list",
        "sandbox_get",
        "sandbox_claim",
        "sandbox_transfer",
        "sandbox_release",
    ] {
        assert!(schemas.text().contains(operation), "no schema for {operation}");
        home.call(["call", "--schema", operation]).succeed().json();
    }
}

#[test]
fn a_stop_that_meets_the_start_still_stops() {
    requires!(native);
    let home = Home::new();
    let sandbox = home.open();

    for n in 0..coracle_tests::count(15, 150) {
        let id = format!("race-{n}");
        let start = home.call(["exec", &sandbox, "--detach", "--id", &id, "--", "sleep", "606060"]).start();
        let stop = home.call(["stop", &sandbox, &id, "--grace", "0s"]).start();
        start.finish().expect_code(0);
        if stop.finish().code() == Some(125) {
            home.call(["stop", &sandbox, &id, "--grace", "0s"]).run();
        }
    }

    let gone = eventually(SOON, || home.census().named("sleep 606060").is_empty());
    assert!(gone.is_some(), "something that was stopped runs on");
}

#[test]
fn an_attendant_misses_no_output_of_its_command() {
    requires!(native);
    let home = Home::new();
    let sandbox = home.open();
    // Ten times as much as the guest keeps, written faster than the client reads.
    let script = format!(
        "'{}' exec {sandbox} -- sh -c 'yes 0123456789 | head -c 100000000' | (sleep 0.5; sha256sum)",
        coracle_tests::binary::path().display()
    );

    let read = std::process::Command::new("sh")
        .args(["-c", &script])
        .env("CORACLE_HOME", home.path())
        .output()
        .expect("a shell runs");
    let expected = std::process::Command::new("sh")
        .args(["-c", "yes 0123456789 | head -c 100000000 | sha256sum"])
        .output()
        .expect("a shell runs");

    assert_eq!(String::from_utf8_lossy(&read.stdout), String::from_utf8_lossy(&expected.stdout));
}

#[test]
fn a_terminal_with_input_from_elsewhere_is_refused() {
    requires!(native);
    let home = Home::new();
    let sandbox = home.open();

    for line in [&["run", "-it", "cat"][..], &["exec", "-it", &sandbox, "cat"]] {
        let refused = home.call(line).stdin("hello").run().expect_code(125);
        assert_eq!(
            refused.stderr,
            "error: standard input is not a terminal\nhint: leave out `-t` and write `-i`\n"
        );
    }
    let typed = home.call(["run", "-it", "sh", "-c", "test -t 0 && echo typed"]).through(terminal(80));
    assert!(plain(typed.succeed().text()).contains(&"typed".to_owned()));
    home.call(["exec", "-t", &sandbox, "sh", "-c", "test -t 1"]).succeed();
}

#[test]
fn a_note_tells_of_input_that_no_command_got() {
    requires!(native);
    let home = Home::new();
    let sandbox = home.open();
    let note = "note: standard input is not passed on; add `-i`\n";
    let ran = |line: &[&str], input: &str| home.call(line).stdin(input).succeed().stderr;
    let told = |line: &[&str], input: &str| ran(line, input).contains("standard input");

    assert_eq!(ran(&["exec", &sandbox, "cat"], "hello"), note);
    assert!(told(&["run", "cat"], "hello"));
    assert!(told(&["exec", &sandbox, "-t", "true"], "hello"));
    assert!(!told(&["exec", &sandbox, "cat"], ""));
    assert!(!told(&["exec", &sandbox, "-i", "true"], "hello"));
    assert!(!told(&["run", "--runtime", "python"], "print(1)"), "this is the program");
    assert!(!told(&["exec", &sandbox, "-d", "true"], "hello"));
}

#[test]
fn a_note_tells_of_a_file_of_which_nothing_was_read() {
    requires!(native);
    let home = Home::new();
    let sandbox = home.open();
    let from = |script: &str| {
        let exec = home.call(["exec", &sandbox, "cat"]).through(["sh", "-c", script, "sh"]);
        exec.succeed().stderr
    };

    assert!(from("f=$(mktemp); echo hello > $f; \"$@\" < $f; rm $f").contains("add `-i`"));
    assert_eq!(from("\"$@\" < /dev/null"), "");
    assert_eq!(from("f=$(mktemp); printf '1\\n2\\n' > $f; while read l; do \"$@\"; done < $f; rm $f"), "");
}

#[test]
fn the_execs_that_exist_are_listed_for_one_that_does_not() {
    requires!(native);
    let home = Home::new();
    let sandbox = home.open();

    let empty = home.call(["logs", &sandbox, "tock", "--json"]).run().error();
    home.call(["exec", &sandbox, "--id", "tick", "true"]).succeed();
    let refused = home.call(["logs", &sandbox, "tock"]).run().expect_code(125);

    assert_eq!(empty["hint"], format!("nothing was run in sandbox `{sandbox}`"));
    assert_eq!(refused.stderr, "error: there is no exec `tock`\nhint: name one of these:\n  tick (`true`)\n");
}
