//! Memory: the hog dies, its sandbox does not.

use coracle_tests::{Home, requires};

/// Writes to every page, so that the memory is really taken.
const HOG: &str = "x = b'x' * (512 << 20); print('survived')";

#[test]
fn a_hog_is_killed_and_says_so() {
    requires!(native);
    let home = Home::new();

    let ran = home.call(["run", "--memory", "64m", "--json", "--", "python3", "-c", HOG]).run();

    let reply = ran.json();
    assert_eq!(ran.code(), Some(137), "{ran}");
    assert_eq!(reply["outcome"]["kind"], "oom_killed", "{reply}");
    assert!(reply["exit_code"].is_null(), "{reply}");
}

#[test]
fn a_hog_below_the_leader_is_seen_too() {
    requires!(native);
    let home = Home::new();
    let script = format!("python3 -c \"{HOG}\"; exit $?");

    let ran = home.call(["run", "--memory", "64m", "--json", "--", "sh", "-c", &script]).run();

    let reply = ran.json();
    assert!(!ran.text().contains("survived"), "{ran}");
    let limits =
        reply["limits_hit"].to_string() + &reply["limits"].to_string() + &reply["outcome"].to_string();
    assert!(
        limits.contains("memory") || limits.contains("oom_killed"),
        "nothing says that memory ran out: {reply}"
    );
}

#[test]
fn the_sandbox_survives_its_hogs() {
    requires!(native);
    let home = Home::new();
    let sandbox = home.open_with(&["--memory", "64m"]);
    home.exec(&sandbox, ["sh", "-c", "echo kept > note"]).succeed();
    let guests = home.census().guests();

    for _ in 0..3 {
        home.exec(&sandbox, ["python3", "-c", HOG]).run().expect_code(137);
    }

    assert_eq!(home.exec(&sandbox, ["cat", "note"]).succeed().text(), "kept\n");
    assert_eq!(home.census().guests(), guests);
}

#[test]
fn files_in_memory_count_too() {
    requires!(native);
    let home = Home::new();

    for place in ["/tmp", "/dev/shm"] {
        let fill = format!("head -c 512M /dev/zero > {place}/fill && echo survived");
        let ran = home.call(["run", "--memory", "64m", "--", "sh", "-c", &fill]).run();
        // A place on disk has room for it; a place in memory must not.
        let on_disk = home.call(["run", "--", "stat", "-f", "-c", "%T", place]).succeed();
        if on_disk.text().trim() == "tmpfs" {
            assert!(!ran.text().contains("survived"), "{place} is memory that no limit counts");
        }
    }
}
