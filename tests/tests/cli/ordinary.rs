//! Without root a sandbox has one user. What a command may then do to the guest, its own, is still nothing that helps it.

use coracle_tests::{Home, SOON, requires};

#[test]
fn a_command_cannot_blind_the_guest_and_outlive_its_deadline() {
    requires!(native);
    let home = Home::ordinary();
    let sandbox = home.open();
    let blind = "
import os, resource
for pid in (1, 2):
    for limit in (resource.RLIMIT_NOFILE, resource.RLIMIT_NPROC):
        try: resource.prlimit(pid, limit, (3, 3))
        except OSError: pass
os.execvp('sleep', ['sleep', '91.25'])";

    let late = home
        .call(["exec", &sandbox, "--timeout", "1s", "--grace", "0s", "--", "python3", "-c", blind])
        .within(SOON)
        .run();

    assert_eq!(late.code(), Some(124), "{late}");
    assert!(home.census().named("91.25").is_empty());
    assert_eq!(home.exec(&sandbox, ["echo", "alive"]).succeed().text(), "alive\n");
}

#[test]
fn a_stopped_forker_is_set_going_again() {
    requires!(native);
    let home = Home::ordinary();
    let sandbox = home.open();
    home.exec(&sandbox, ["sh", "-c", "kill -STOP 2"]).run();

    let next = home.exec(&sandbox, ["echo", "alive"]).within(SOON).succeed();

    assert_eq!(next.text(), "alive\n");
}

#[test]
fn what_cannot_be_enforced_is_listed_and_where_it_was_demanded_refused() {
    requires!(native);
    let home = Home::ordinary();

    let report = home.call(["doctor", "--json"]).succeed().json();
    let walls = report["backends"][0]["profile"]["walls"].as_array().expect("a list of walls").clone();
    let missing: Vec<_> = walls.iter().filter(|wall| wall["enforced"] == false).collect();
    let names: Vec<_> = missing.iter().filter_map(|wall| wall["name"].as_str()).collect();
    assert_eq!(names, ["separate_users", "cpu", "memory", "disk"]);
    assert!(missing.iter().all(|wall| wall["hint"].is_string()), "{report}");

    let demands: [&[&str]; 6] = [
        &["--memory", "64m"],
        &["--cpus", "1"],
        &["--storage", "disk", "--disk", "10m"],
        &["--require", "separate_users"],
        &["--privileges", "install"],
        &["--require", "no_such_wall"],
    ];
    for demand in demands {
        let refused = home.call(["run", "--json"].iter().chain(demand).chain(&["--", "true"])).run();
        assert_eq!(refused.error_kind(), "unsupported", "{demand:?}");
    }
    home.call(["run", "--memory", "64m", "--allow-missing", "memory", "--", "true"]).succeed();
    home.call(["run", "--require", "landlock", "--require", "pids", "--", "true"]).succeed();
    home.expect_no_orphans();
}
