//! What of the caller reaches a command: nothing that was not given to it.

use coracle_tests::{Home, requires};

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
