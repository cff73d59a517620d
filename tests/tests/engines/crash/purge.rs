//! A purge removes what is on a container engine, too, and forgets nothing of one that it cannot reach.

use coracle_tests::engines::{Containers, Ending, docker, podman, relay::Relay};
use coracle_tests::requires;

use super::site::{Site, engine};

/// Fails if there is anything of these sandboxes.
#[track_caller]
fn expect_nothing_of(site: &Site<'_>, sandboxes: &[String]) {
    let of_them = |line: &String| sandboxes.iter().any(|sandbox| line.contains(sandbox));
    let left: Vec<_> = site.left().into_iter().filter(of_them).collect();
    assert!(left.is_empty(), "{left:#?}");
    assert!(!site.home.path().exists(), "the home is left");
}

#[track_caller]
fn expect_told_and_purged(site: &Site<'_>) {
    let sandboxes = [site.open(), site.open()];
    site.exec(&sandboxes[0], "sleep 60 & dd if=/dev/zero of=/dev/null bs=1M count=200").succeed();
    assert!(site.left().iter().any(|line| line.contains(&sandboxes[0])), "it is counted where it is");

    let told = site.call(&["stats", &sandboxes[0], "--json"]).succeed().json();
    let purged = site.call(&["purge", "--yes", "--json"]).succeed().json();

    for name in ["cpu_ms", "memory_bytes", "processes"] {
        assert!(told[0][name].as_u64() > Some(0), "{name}: {told}");
    }
    assert_eq!((&purged["purged"], &purged["sandboxes"]), (&true.into(), &2.into()), "{purged}");
    expect_nothing_of(site, &sandboxes);
}

#[test]
fn what_is_on_docker_is_listed_and_purged() {
    requires!(docker);
    expect_told_and_purged(&Site::at(docker()));
}

#[test]
fn what_is_on_podman_is_listed_and_purged() {
    requires!(podman);
    expect_told_and_purged(&Site::at(podman()));
}

#[test]
fn an_engine_that_never_comes_back_can_be_given_up() {
    requires!(docker);
    let engine = engine(Containers::End);
    let site = Site::at(&engine);
    let (closed, purged) = (site.open(), site.open());
    let ids = engine.container_ids(&format!("coracle.sandbox={closed}"));
    let [container] = &ids[..] else { panic!("one sandbox, one container: {ids:?}") };
    engine.stop(Ending::Killed);

    let told = site.call(&["close", &closed, "--forget", "--json"]).succeed().json();
    let reason = site.record(&closed)["reason"].to_string();
    let report = site.call(&["purge", "--yes", "--forget", "docker", "--json"]).succeed().json();

    assert!(told[0]["left_behind"].to_string().contains(container.as_str()), "{told}");
    assert!(reason.contains("given up") && reason.contains(container.as_str()), "{reason}");
    assert!(report["forgotten"].to_string().contains(&purged), "{report}");
    assert!(!site.home.path().exists(), "the home is left");
    // Its containers must be removed before it goes.
    engine.begin().expect("an engine starts again");
    for sandbox in [closed, purged] {
        for id in engine.container_ids(&format!("coracle.sandbox={sandbox}")) {
            assert!(
                engine.client(["rm", "-f", "-v", &id]).output().is_ok_and(|ended| ended.status.success())
            );
        }
    }
}

#[test]
fn what_cannot_be_reached_keeps_the_home_until_it_can() {
    requires!(docker);
    let engine = engine(Containers::Live);
    let relay = Relay::to(&engine.socket()).expect("a port is free");
    let site = Site::through(&engine, &relay.address());
    let sandbox = site.open();
    assert!(!site.left().is_empty());
    engine.stop(Ending::Killed);

    let told = site.call(&["purge", "--yes", "--json"]).run().expect_code(1).json();

    assert_eq!(told["purged"], false);
    assert!(told["trouble"].to_string().contains(&sandbox), "{told}");
    assert_eq!(site.state(&sandbox), "destroy_failed", "it is known where it is");
    engine.begin().expect("an engine starts again");
    site.call(&["purge", "--yes"]).succeed();
    expect_nothing_of(&site, &[sandbox]);
}
