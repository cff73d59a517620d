//! The story of one sandbox on a container engine; coracle is killed at each crash point in turn.

use std::panic::catch_unwind;

use coracle_tests::engines::{Engine, docker, podman};
use coracle_tests::{Call, count, requires};

use super::site::Site;

/// The points of the engine's crate that an engine's sandboxes reach in their own way; in a full run all of them.
const OF_LIFE: &[&str] = &[
    "create.backend.after",
    "exec.start.after",
    "destroy.backend.after",
    "create.row.after",
    "create.prepare.after",
    "create.ready.after",
    "exec.admit.after",
    "destroy.row.before",
    "destroy.row.after",
    "destroy.end.after",
];
const OF_LIFE_QUICK: usize = 3;

/// Runs a command once, under an id. It outlives its caller: one that ended with it would at times not have run.
fn once(sandbox: &str) -> [&str; 9] {
    ["exec", sandbox, "--keep-running", "--id", "once", "--", "sh", "-c", "echo line >> note"]
}

/// Tells the story with a call that may be cut short: opened, used, closed. Returns whether it was.
fn tell(site: &Site<'_>, point: &str) -> bool {
    let killed = |call: Call| {
        let finished = call.env("CORACLE_CRASH_AT", point).run();
        let killed = finished.was_killed();
        if !killed {
            finished.expect_code(0);
        }
        killed
    };
    if killed(site.open_call(&["--key", "story"])) {
        return true;
    }
    let sandbox = site.ready().pop().expect("it was opened");
    killed(site.call(&once(&sandbox))) || killed(site.call(&["close", &sandbox]))
}

fn survive(engine: &Engine, point: &str) {
    let site = Site::at(engine);

    assert!(tell(&site, point), "the point `{point}` was never reached");

    let ready = site.ready();
    site.expect_only(&ready.iter().map(String::as_str).collect::<Vec<_>>());
    // The same key again: one sandbox, which works, and an exec id that runs once.
    site.open_call(&["--key", "story"]).succeed();
    let ready = site.ready();
    let [sandbox] = &ready[..] else { panic!("{point}: one key, and these sandboxes: {ready:?}") };
    site.call(&once(sandbox)).succeed();
    assert_eq!(site.exec(sandbox, "cat note").succeed().text(), "line\n", "{point}");
    site.expect_all_gone();
}

/// Tries every point, so that one report names all that fail.
#[track_caller]
fn survive_all(engine: &Engine, points: &[&str]) {
    let dies = |point: &&&str| catch_unwind(|| survive(engine, point)).is_err();
    let dead: Vec<_> = points.iter().filter(dies).collect();
    assert!(dead.is_empty(), "a kill at these points is not survived: {dead:?}");
}

#[test]
fn a_kill_at_any_point_of_a_container_is_survived_on_docker() {
    requires!(docker);

    survive_all(docker(), coracle_backends::docker::CRASH_POINTS);
}

#[test]
fn a_kill_at_any_point_of_a_life_is_survived_on_docker() {
    requires!(docker);

    survive_all(docker(), &OF_LIFE[..count(OF_LIFE_QUICK, OF_LIFE.len())]);
}

#[test]
fn a_kill_at_any_point_of_a_container_is_survived_on_podman() {
    requires!(podman);
    let points = coracle_backends::docker::CRASH_POINTS;

    // Every third in a quick run: what differs between engines is not where we can be killed.
    let some: Vec<_> = points.iter().copied().step_by(count(3, 1)).collect();
    survive_all(podman(), &some);
}
