//! coracle is killed while a sandbox on a container engine falls asleep or wakes.

use coracle_tests::engines::{Engine, docker, podman};
use coracle_tests::{Home, SOON, count, eventually, requires};

use super::site::Site;

fn points() -> Vec<&'static str> {
    let of_engine = coracle_backends::docker::SLEEP_CRASH_POINTS.iter();
    of_engine.chain(coracle_engine::SLEEP_CRASH_POINTS).copied().collect()
}

/// Waits until records and containers agree: an engine goes on with the request of a client that was killed.
fn expect_agreement(site: &Site<'_>) {
    let agreed = eventually(SOON, || {
        site.call(&["gc"]).run();
        site.call(&["doctor", "--orphans"]).run().code() == Some(0)
    });
    assert!(agreed.is_some(), "{:#?}", site.left());
}

fn survive(engine: &'static Engine, point: &str) {
    // A home that sees the processes of its containers.
    let site = Site { engine, home: Home::new().at(engine) };
    let opened = site.open_call(&["--network", "allow=ok.test"]).succeed().json();
    let sandbox = opened["sandbox_id"].as_str().expect("`open --json` names the sandbox");
    site.exec(sandbox, "echo acknowledged > note").succeed();
    for round in 0..count(1, 20) {
        let home = &site.home;
        home.census().processes.iter().filter(|process| process.is_guest()).for_each(|guest| guest.kill());
        eventually(SOON, || home.census().guests().is_empty()).expect("a killed guest ends");

        let killed = site.exec(sandbox, "true").env("CORACLE_CRASH_AT", point).run();
        assert!(killed.was_killed(), "{point} was not reached: {killed}");
        // The janitor, or the next call by itself.
        if round % 2 == 0 {
            expect_agreement(&site);
        }

        assert_eq!(site.exec(sandbox, "cat note").succeed().text(), "acknowledged\n", "{point}");
        assert_eq!(home.census().guests().len(), 1, "{point}: {}", home.census().describe());
    }
    site.expect_all_gone();
}

#[test]
fn a_kill_at_any_point_of_a_sleep_on_docker_loses_no_file() {
    requires!(docker);

    for point in points() {
        survive(docker(), point);
    }
}

#[test]
fn a_kill_at_any_point_of_a_sleep_on_podman_loses_no_file() {
    requires!(podman);

    for point in points().into_iter().step_by(count(2, 1)) {
        survive(podman(), point);
    }
}
