//! A sandbox that hibernates: its guest ends, its files stay, and the next use goes on with them.

use std::time::Duration;

use coracle_tests::{Home, SOON, count, eventually, requires};
use serde_json::{Value, json};

/// Short, and long enough that a command comes before it has passed on a busy machine.
const IDLE: &str = "2s";

fn show(home: &Home, sandbox: &str) -> Value {
    home.call(["show", sandbox, "--json"]).succeed().json()
}

fn open(home: &Home, more: &[&str]) -> String {
    home.open_with(&[&["--on-idle", "hibernate"], more].concat())
}

/// Writes to every place a sandbox keeps files in.
const WRITE: &str = "mkdir empty; echo work > note; echo kept > /tmp/scratch; ln -s note link; chmod 640 note
    mkdir -p /opt/own; echo system > /opt/own/added; rm /etc/hosts";
/// Shows all of it.
const READ: &str = "cat note /tmp/scratch link /opt/own/added; stat -c %a note; ls -d empty
    ls -d /etc/hosts 2>/dev/null || echo removed";
const FILES: &str = "work\nkept\nwork\nsystem\n640\nempty\nremoved\n";

fn shell(home: &Home, sandbox: &str, script: &str) -> String {
    home.exec(sandbox, ["sh", "-c", script]).succeed().text().to_owned()
}

fn wait_for_the_end_of_its_guest(home: &Home) {
    eventually(SOON, || home.census().guests().is_empty()).expect("a guest without work ends");
}

fn kill_its_guest(home: &Home) {
    for guest in home.census().guests() {
        let pid = rustix::process::Pid::from_raw(guest as i32).expect("a pid");
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).expect("it is there");
    }
    wait_for_the_end_of_its_guest(home);
}

fn sleep_and_wake(home: &Home) {
    let sandbox = open(home, &["--key", "sleeper", "--ttl", IDLE, "--run", "run_a"]);
    let exec = |script: &str| {
        home.call(["exec", "sleeper", "--run", "run_a", "--epoch", "1", "--", "sh", "-c", script]).succeed()
    };
    exec(WRITE);
    wait_for_the_end_of_its_guest(home);

    home.call(["gc"]).succeed();
    let asleep = show(home, &sandbox);
    let found = home.call(["open", "--key", "sleeper", "--run", "run_a"]).succeed();

    assert_eq!(asleep["state"], "hibernated", "{asleep}");
    assert_eq!((&asleep["kept"]["at"], &asleep["life"]), (&json!("place"), &json!(1)));
    assert!(asleep["kept"]["expires_at"].as_u64() > asleep["kept"]["since"].as_u64(), "{asleep}");
    assert_eq!(found.text().trim(), sandbox);
    assert_eq!(exec(READ).text(), FILES);
    let awake = show(home, &sandbox);
    assert_eq!((&awake["state"], &awake["life"]), (&json!("ready"), &json!(2)), "{awake}");
    assert_eq!((&awake["epoch"], &awake["kept"]), (&json!(1), &Value::Null), "{awake}");
    home.call(["close", &sandbox, "--run", "run_a"]).succeed();
    home.expect_nothing_left();
}

fn execs_outlive_a_sleep(home: &Home) {
    let sandbox = open(home, &["--ttl", IDLE]);
    let exec = |id: &str, script: &str| {
        let input = json!({"sandbox_id": sandbox, "exec_id": id, "cmd": ["sh", "-c", script]});
        home.call(["call", "sandbox_exec", &input.to_string()]).succeed().json()
    };
    let of = |operation: &str, id: &str| {
        let input = json!({"sandbox_id": sandbox, "exec_id": id});
        home.call(["call", operation, &input.to_string()]).succeed().json()
    };
    let script = "echo out; echo err >&2; echo once >> runs; exit 3";
    let first = exec("exec_a", script);
    wait_for_the_end_of_its_guest(home);

    let read = of("sandbox_exec_read", "exec_a");
    let again = exec("exec_a", script);

    assert_eq!(first["exit_code"], 3, "{first}");
    let text: Vec<_> =
        read["chunks"].as_array().expect("chunks").iter().map(|chunk| &chunk["text"]).collect();
    assert_eq!((read["exit_code"].as_i64(), text.len()), (Some(3), 2), "{read}");
    assert_eq!((&again["exit_code"], &again["stdout"]), (&json!(3), &json!("out\n")), "{again}");
    assert_eq!(shell(home, &sandbox, "cat runs; ls /execs /workspace/execs 2>/dev/null || true"), "once\n");
    // What ran when its guest was killed is lost, and what was left before that is still there.
    let input = json!({"sandbox_id": sandbox, "exec_id": "exec_b", "cmd": ["sleep", "600"], "stream": true});
    home.call(["call", "sandbox_exec", &input.to_string()]).succeed();
    kill_its_guest(home);
    assert_eq!(of("sandbox_exec_wait", "exec_b")["outcome"]["kind"], "lost");
    assert_eq!(of("sandbox_exec_read", "exec_a")["exit_code"], 3);
    assert!(show(home, &sandbox)["life"].as_u64() >= Some(3), "it may have slept more often");
}

#[test]
fn ended_execs_are_found_again_after_a_sleep_and_running_ones_are_lost_with_a_killed_guest() {
    requires!(native);
    execs_outlive_a_sleep(&Home::new());
}

#[test]
fn execs_of_an_ordinary_user_outlive_a_sleep_too() {
    requires!(native);
    execs_outlive_a_sleep(&Home::ordinary());
}

#[test]
fn an_idle_sandbox_sleeps_and_the_next_use_finds_every_file() {
    requires!(native);
    sleep_and_wake(&Home::new());
}

#[test]
fn an_idle_sandbox_of_an_ordinary_user_sleeps_and_wakes() {
    requires!(native);
    sleep_and_wake(&Home::ordinary());
}

#[test]
fn a_killed_guest_costs_processes_and_no_file() {
    requires!(native);
    survive_kills(&Home::new());
}

#[test]
fn a_killed_guest_of_an_ordinary_user_costs_no_file_either() {
    requires!(native);
    survive_kills(&Home::ordinary());
}

fn survive_kills(home: &Home) {
    let sandbox = open(home, &[]);
    shell(home, &sandbox, WRITE);

    for life in 0..count(3, 50) {
        shell(home, &sandbox, &format!("echo {life} >> lives"));
        kill_its_guest(home);
        // By its first use, and by the janitor.
        if life % 2 == 1 {
            home.call(["gc"]).succeed();
            assert_eq!(show(home, &sandbox)["state"], "hibernated");
        }
    }

    assert_eq!(shell(home, &sandbox, READ), FILES);
    let lives: String = (0..count(3, 50)).map(|life| format!("{life}\n")).collect();
    assert_eq!(shell(home, &sandbox, "cat lives"), lives);
    assert_eq!(show(home, &sandbox)["life"], count(3, 50) + 1);
}

#[test]
fn an_idle_end_costs_no_file_however_often() {
    requires!(native);
    for home in [Home::new(), Home::ordinary()] {
        let sandbox = open(&home, &["--key", "sleeper", "--ttl", "1s"]);
        shell(&home, &sandbox, WRITE);
        for life in 0..count(2, 50) {
            shell(&home, "sleeper", &format!("echo {life} >> lives"));
            wait_for_the_end_of_its_guest(&home);
        }

        assert_eq!(shell(&home, &sandbox, READ), FILES);
        let lives: String = (0..count(2, 50)).map(|life| format!("{life}\n")).collect();
        assert_eq!(shell(&home, &sandbox, "cat lives"), lives);
    }
}

#[test]
fn of_twenty_callers_one_wakes_it() {
    requires!(native);
    let home = Home::new();
    let sandbox = open(&home, &[]);
    shell(&home, &sandbox, "echo work > note");
    kill_its_guest(&home);

    let calls: Vec<_> = (0..20).map(|_| home.exec(&sandbox, ["cat", "note"]).start()).collect();
    for call in calls {
        assert_eq!(call.finish().expect_code(0).text(), "work\n");
    }

    assert_eq!(show(&home, &sandbox)["life"], 2);
    assert_eq!(home.census().guests().len(), 1);
}

#[test]
fn looking_wakes_nothing_and_files_do() {
    requires!(native);
    let home = Home::new();
    let sandbox = open(&home, &[]);
    shell(&home, &sandbox, "echo work > note");
    kill_its_guest(&home);

    home.call(["ps"]).succeed();
    home.call(["show", &sandbox]).succeed();
    home.call(["transfer", &sandbox, "--to", "run_b"]).succeed();
    home.call(["release", &sandbox, "--run", "run_b"]).succeed();
    assert!(home.census().guests().is_empty(), "{}", home.census().describe());
    let read = home.call(["fs", "read", &sandbox, "note"]).succeed();

    assert_eq!(read.text(), "work\n");
    assert_eq!(home.census().guests().len(), 1);
}

#[test]
fn a_key_with_another_wish_is_a_conflict_also_while_its_sandbox_sleeps() {
    requires!(native);
    let home = Home::new();
    let sandbox = open(&home, &["--key", "sleeper", "--memory", "512m"]);
    let other = ["open", "--key", "sleeper", "--memory", "1g", "--json"];
    for swept in [false, true] {
        kill_its_guest(&home);
        if swept {
            home.call(["gc"]).succeed();
        }

        assert_eq!(home.call(other).run().error_kind(), "conflict", "{swept}");
        assert!(home.census().guests().is_empty(), "a refusal wakes nothing");
        shell(&home, &sandbox, "true");
    }
}

#[test]
fn forks_and_their_parent_sleep_apart() {
    requires!(native);
    let home = Home::new();
    let parent = open(&home, &[]);
    shell(&home, &parent, "echo first > note; echo system > /usr/local/added");
    let child = home.call(["fork", &parent]).succeed().text().trim().to_owned();
    shell(&home, &parent, "echo parent >> note");
    shell(&home, &child, "echo child >> note; rm /usr/local/added");

    for _ in 0..2 {
        kill_its_guest(&home);
        home.call(["gc"]).succeed();

        assert_eq!(shell(&home, &child, "cat note; ls /usr/local/added || true"), "first\nchild\n");
        assert_eq!(shell(&home, &parent, "cat note /usr/local/added"), "first\nparent\nsystem\n");
    }
    home.call(["close", &parent, &child]).succeed();
    home.expect_nothing_left();
}

#[test]
fn what_is_mounted_is_there_again() {
    requires!(native);
    let home = Home::new();
    let project = tempfile::tempdir().expect("a directory can be made");
    std::fs::write(project.path().join("main.c"), "code").expect("it is ours");
    let workspace = project.path().display().to_string();
    let sandbox = open(&home, &["--workspace", &workspace, "-v", "data:/data", "-e", "NAME=value"]);
    shell(&home, &sandbox, "echo out > made; echo kept > /data/file");
    kill_its_guest(&home);

    let after = shell(&home, &sandbox, "cat main.c made /data/file; echo $NAME");

    assert_eq!(after, "codeout\nkept\nvalue\n");
    assert!(project.path().join("made").exists());
}

#[test]
fn a_sleeper_ends_when_it_was_kept_long_enough() {
    requires!(native);
    let home = Home::new().env("CORACLE_HIBERNATE_KEEP", "1s");
    let sandbox = open(&home, &["--key", "sleeper"]);
    kill_its_guest(&home);
    home.call(["gc"]).succeed();
    assert_eq!(show(&home, &sandbox)["state"], "hibernated");

    let ended = eventually(SOON + Duration::from_secs(60), || {
        home.call(["gc"]).succeed();
        show(&home, &sandbox)["state"] == "expired"
    });

    assert!(ended.is_some(), "{}", show(&home, &sandbox));
    home.expect_nothing_left();
}

#[test]
fn a_sleeper_can_be_closed_and_purged() {
    requires!(native);
    let home = Home::new();
    let (closed, purged) = (open(&home, &[]), open(&home, &[]));
    kill_its_guest(&home);
    home.call(["gc"]).succeed();

    home.call(["close", &closed]).succeed();
    assert_eq!(show(&home, &closed)["state"], "destroyed");
    assert_eq!(show(&home, &purged)["state"], "hibernated");
    home.call(["purge", "--yes"]).succeed();

    home.expect_nothing_left();
}

#[test]
fn what_cannot_hibernate_is_refused_before_it_is_made() {
    requires!(native);
    let home = Home::new();

    let in_memory = home.call(["open", "--on-idle", "hibernate", "--storage", "memory", "--json"]).run();
    let unknown = home.call(["open", "--on-idle", "sleep"]).run();

    assert_eq!(in_memory.error_kind(), "invalid");
    assert!(unknown.stderr.contains("hibernate, destroy"), "{unknown}");
    assert!(home.live().is_empty());
}
