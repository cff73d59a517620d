//! What of the caller reaches a command: nothing that was not given to it.

use coracle_tests::{Home, count, requires};

#[test]
fn the_callers_environment_stays_outside() {
    requires!(native);
    let home = Home::new();

    let ran = home
        .call(["run", "--", "env"])
        .env("HOST_CANARY_TOKEN", "c4n4ry")
        .env("LD_PRELOAD_CANARY", "c4n4ry")
        .succeed();

    assert!(!ran.text().contains("c4n4ry") && !ran.text().contains("CORACLE_HOME"), "{ran}");
}

#[test]
fn the_host_name_is_its_own() {
    requires!(native);
    let home = Home::new();
    let ours = std::fs::read_to_string("/proc/sys/kernel/hostname").expect("/proc is mounted");

    let theirs = home.call(["run", "--", "cat", "/proc/sys/kernel/hostname"]).succeed();

    assert_ne!(theirs.text(), ours);
}

#[test]
fn only_three_descriptors_are_open() {
    requires!(native);
    let home = Home::new();
    let sandbox = home.open();
    let list = "import os; print(sorted(int(n) for n in os.listdir('/proc/self/fd'))[:-1])";

    for _ in 0..count(10, 500) {
        let ran = home.exec(&sandbox, ["python3", "-c", list]).succeed();
        assert_eq!(ran.text(), "[0, 1, 2]\n");
    }
}

#[test]
fn a_directory_by_descriptor_leads_nowhere() {
    requires!(native);
    let home = Home::new();
    let sandbox = home.open();
    let canary = tempfile::NamedTempFile::new().expect("a file can be made");
    std::fs::write(canary.path(), "host canary").expect("the file is ours");

    let path = format!("{}{}", "../".repeat(16), canary.path().display());
    for number in (3..count(40, 1024)).map(|n| n.to_string()) {
        // Named by the caller, and by a link the agent has put where the caller expects a directory.
        let directory = format!("/proc/self/fd/{number}");
        home.exec(&sandbox, ["ln", "-sfn", &directory, "build"]).succeed();
        for cwd in [directory.as_str(), "build"] {
            let ran = home.call(["exec", &sandbox, "--json", "--cwd", cwd, "--", "cat", &path]).run();
            assert!(
                !String::from_utf8_lossy(&ran.stdout).contains("host canary"),
                "{directory} leads outside"
            );
            assert_eq!(ran.error_kind(), "invalid", "{directory} can be entered");
        }
    }
}

#[test]
fn commands_are_not_root_outside() {
    requires!(native);
    let home = Home::new();
    let sandbox = home.open();
    home.call(["exec", &sandbox, "--detach", "--", "sleep", "929292"]).succeed();

    let census = home.census();
    let sleeper = census.named("sleep 929292").into_iter().next().expect("it sleeps");

    let status = std::fs::read_to_string(format!("/proc/{}/status", sleeper.pid)).expect("it sleeps");
    for line in status.lines().filter(|line| line.starts_with("Uid:") || line.starts_with("Gid:")) {
        assert!(line.split_whitespace().skip(1).all(|id| id != "0"), "{line}");
    }
}
