//! Processes: a fork bomb fills its own sandbox and nothing else.

use std::time::Duration;

use coracle_tests::{Home, SOON, eventually, requires};
use serde_json::json;

const BOMB: &str = "
import os, time
while True:
    try:
        os.fork()
    except OSError:
        time.sleep(0.01)
";

const PIDS: usize = 64;

fn open(home: &Home) -> String {
    let opened = home.operation("sandbox_open", &json!({"limits": {"pids": PIDS}})).succeed().json();
    opened["sandbox_id"].as_str().expect("an id").to_owned()
}

#[test]
fn a_fork_bomb_stays_within_its_bound_and_ends_at_its_deadline() {
    requires!(native);
    let home = Home::new();
    let sandbox = open(&home);
    let bomb = home
        .call([
            "exec",
            &sandbox,
            "--json",
            "--timeout",
            "8s",
            "--grace",
            "0",
            "--",
            "python3",
            "-c",
            BOMB,
            "fork-bomb",
        ])
        .start();

    let full = eventually(Duration::from_secs(8), || home.census().named("fork-bomb").len() >= PIDS / 2);
    let most = (0..20).map(|_| home.census().named("fork-bomb").len()).max();
    let finished = bomb.finish();

    assert!(full.is_some(), "the bomb did not go off, so this proves nothing");
    assert!(most <= Some(PIDS), "{most:?} processes");
    assert_eq!(finished.code(), Some(124), "{finished}");
    let reply = finished.json();
    assert!(
        reply.to_string().contains("\"pids\""),
        "nothing says that the bound on processes was hit: {reply}"
    );
    let dead = eventually(SOON, || home.census().named("fork-bomb").is_empty());
    assert!(dead.is_some(), "{}", home.census().describe());
}

#[test]
fn a_bombed_sandbox_can_be_stopped_used_and_closed() {
    requires!(native);
    let home = Home::new();
    let sandbox = open(&home);
    home.call(["exec", &sandbox, "--detach", "--id", "bomb", "--", "python3", "-c", BOMB, "fork-bomb"])
        .succeed();
    eventually(SOON, || home.census().named("fork-bomb").len() >= PIDS / 2).expect("the bomb goes off");

    home.call(["stop", &sandbox, "bomb"]).succeed();
    home.exec(&sandbox, ["echo", "usable"]).succeed();
    home.call(["exec", &sandbox, "--detach", "--", "python3", "-c", BOMB, "fork-bomb"]).succeed();
    home.call(["close", &sandbox]).succeed();

    home.expect_nothing_left();
}
