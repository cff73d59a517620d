//! Another build takes over a home with sandboxes in it: commands go on, and it migrates the database or refuses the home.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use coracle_tests::{Call, Home, binary, count, requires};
use serde_json::Value;
use tempfile::TempDir;

/// Returns a build that is not the one under test, as far as its bytes go.
fn other_build() -> (TempDir, PathBuf) {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("coracle");
    // By another process: see `binary::for_everybody`.
    let script = "cp \"$0\" \"$1\" && printf 'another build' >> \"$1\"";
    let made = Command::new("sh").args(["-c", script]).arg(binary::path()).arg(&path).status();
    assert!(made.is_ok_and(|status| status.success()), "it is copied");
    (directory, path)
}

/// Returns a build from before, which the test requires.
fn old_build() -> PathBuf {
    binary::old().expect("the test requires it")
}

fn by(home: &Home, build: &Path, words: &[&str]) -> Call {
    home.call_by(build, words)
}

fn opened_by(home: &Home, build: &Path) -> String {
    let opened = by(home, build, &["open", "--key", "kept", "--json"]).succeed().json();
    opened["sandbox_id"].as_str().expect("an id").to_owned()
}

/// A command that prints one half, waits for a file, prints the other half, and ends.
const HALVES: &str = "seq 3; while [ ! -e go ]; do sleep 0.05; done; seq 4 6; exit 7";

/// One build opens a sandbox and starts a command in it, another reads on, waits for the end and closes it.
fn hand_over(home: &Home, first: &Path, second: &Path) {
    let sandbox = opened_by(home, first);
    by(home, first, &["exec", &sandbox, "--detach", "--id", "halves", "--", "sh", "-c", HALVES]).succeed();
    let follower = by(home, first, &["logs", "--follow", "--json", &sandbox, "halves"]).start();
    follower
        .wait_for(|output| lines(&String::from_utf8_lossy(output)).iter().any(|chunk| is_last(chunk, '3')));
    let printed = follower.kill();
    let chunks: Vec<Value> = lines(printed.text());
    let last = chunks.last().expect("it has printed")["seq"].to_string();

    by(home, second, &["exec", &sandbox, "--", "touch", "go"]).succeed();
    let rest = by(home, second, &["logs", "--follow", "--json", "--since-seq", &last, &sandbox, "halves"]);
    let rest = rest.run().expect_code(7);

    let all = chunks.iter().cloned().chain(lines(rest.text()));
    let text: String = all.filter_map(|chunk| Some(chunk["text"].as_str()?.to_owned())).collect();
    assert_eq!(text, "1\n2\n3\n4\n5\n6\n", "nothing is lost and nothing is there twice");
    by(home, second, &["exec", &sandbox, "--", "sh", "-c", "echo on > file"]).succeed();
    let same = by(home, second, &["open", "--key", "kept", "--json"]).succeed().json();
    assert_eq!(same["sandbox_id"], *sandbox);
    by(home, second, &["close", &sandbox]).succeed();
    home.expect_nothing_left();
}

/// Tells whether a chunk ends with a line that is this number.
fn is_last(chunk: &Value, number: char) -> bool {
    chunk["text"].as_str().is_some_and(|text| text.trim_end().ends_with(number))
}

fn lines(text: &str) -> Vec<Value> {
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

/// Takes a home back to the schema before events and tokens, as an older build has left it: what came later is dropped.
fn age(home: &Home) {
    let script = "import sqlite3, sys\n\
        db = sqlite3.connect(sys.argv[1], isolation_level=None)\n\
        db.execute('BEGIN IMMEDIATE')\n\
        old = ('facts', 'sandboxes', 'live_keys', 'live_sandboxes', 'ended_sandboxes')\n\
        new = [row for row in db.execute('SELECT type, name FROM sqlite_master') if row[1] not in old]\n\
        new = [row for row in new if not row[1].startswith('sqlite_')]\n\
        for kind, name in sorted(new):\n    db.execute(f'DROP {kind} IF EXISTS {name}')\n\
        old = ('id', 'state', 'key', 'epoch', 'created_at', 'updated_at', 'document')\n\
        new = [row[1] for row in db.execute('PRAGMA table_xinfo(sandboxes)') if row[1] not in old]\n\
        for name in new:\n    db.execute(f'ALTER TABLE sandboxes DROP COLUMN {name}')\n\
        db.execute('PRAGMA user_version = 4')\n\
        db.execute('COMMIT')\n\
        db.close()";
    let database = home.path().join("coracle.db");
    let aged = Command::new("python3").args(["-c", script]).arg(database).status().expect("python starts");
    assert!(aged.success());
}

#[test]
fn files_in_a_sandbox_of_a_build_from_before_are_read_and_written() {
    requires!(native);
    requires!(old_build);
    let home = Home::new();
    let sandbox = opened_by(&home, &old_build());
    let bytes: Vec<u8> = (0..3_000_000u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let kind = |words: &[&str]| home.call(words.iter().chain(&["--json"])).run().error_kind();
    let local = tempfile::tempdir().expect("a directory");
    let (tree, inside) = (local.path().display().to_string(), format!("{sandbox}:blob"));

    home.call(["cp", "-", &inside]).stdin(bytes.clone()).succeed();

    assert!(home.call(["fs", "read", &sandbox, "blob", "--user", "root"]).succeed().stdout == bytes);
    home.call(["cp", &inside, &tree]).succeed();
    assert!(std::fs::read(local.path().join("blob")).expect("it came") == bytes);
    assert_eq!(kind(&["fs", "read", &sandbox, "blob", "--user", "1000"]), "unsupported");
    assert_eq!(kind(&["fs", "delete", &sandbox, "blob", "--user", "1000"]), "unsupported");
    assert_eq!(kind(&["cp", &tree, &format!("{sandbox}:tree")]), "unsupported");
    home.call(["fs", "list", &sandbox]).succeed();
}

#[test]
fn another_build_goes_on_with_a_sandbox_and_what_runs_in_it() {
    requires!(native);
    let (_directory, other) = other_build();

    hand_over(&Home::new(), binary::path(), &other);
}

#[test]
fn a_build_from_before_hands_over_its_sandboxes() {
    requires!(old_build);

    hand_over(&Home::new(), &old_build(), binary::path());
}

#[test]
fn a_build_from_before_refuses_a_home_it_does_not_understand() {
    requires!(old_build);
    let home = Home::new();
    let sandbox = home.open();

    let refused = by(&home, &old_build(), &["ps", "--json"]).run();

    assert_eq!(refused.error_kind(), "unsupported");
    home.exec(&sandbox, ["true"]).succeed();
}

#[test]
fn an_old_schema_is_migrated_under_living_sandboxes() {
    requires!(native);
    let home = Home::new();
    let sandbox = home.open();
    age(&home);

    home.exec(&sandbox, ["true"]).succeed();
    home.call(["close", &sandbox]).succeed();

    let told = home.call(["events", "--json", "--kind", "destroyed"]).succeed();
    assert_eq!(told.text().lines().count(), 1);
}

#[test]
fn a_kill_in_the_middle_of_a_migration_leaves_the_old_or_the_new() {
    requires!(native);
    let home = Home::new();
    let sandbox = home.open();
    for round in 0..count(12, 200) {
        age(&home);
        let call = home.call(["ps"]).start();
        std::thread::sleep(Duration::from_micros(400 * (round as u64 % 24)));
        call.kill();

        assert_eq!(home.live().len(), 1, "round {round}");
    }
    home.exec(&sandbox, ["true"]).succeed();
}
