//! Other people at the same container engine: coracle notices what they do to our containers, and leaves theirs alone.

use coracle_tests::engines::relay::Relay;
use coracle_tests::engines::{Engine, TEST_IMAGE, docker};
use coracle_tests::requires;
use serde_json::Value;

use super::site::Site;

/// Has Docker's own command line do something.
#[track_caller]
fn succeed(engine: &Engine, words: &[&str]) -> String {
    let output = engine.client(words).output().expect("Docker's command line is installed");
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

fn container(sandbox: &str) -> String {
    format!("coracle-{sandbox}")
}

/// Returns a home beside the engine and one that has to go through it.
fn both_ways(engine: &Engine) -> [Site<'_>; 2] {
    let relay = Relay::to(&engine.socket()).expect("a port is free");
    [Site::at(engine), Site::through(engine, &relay.address())]
}

fn refusal(site: &Site<'_>, sandbox: &str) -> Value {
    site.call(&["exec", sandbox, "--json", "--", "true"]).run().error()
}

#[test]
fn an_image_whose_registry_does_not_answer_is_an_error_with_a_hint() {
    requires!(docker);
    let site = Site::at(docker());

    let words = ["run", "--json", "--backend", "docker", "--image", "localhost:1/no-such:1", "--", "true"];
    let error = site.call(&words).run().error();

    assert_eq!(
        error["kind"], "not_available",
        "no registry could say whether there is such an image: {error}"
    );
    assert!(error["hint"].as_str().is_some_and(|hint| hint.contains("localhost:1")), "{error}");
    site.expect_only(&[]);
}

#[test]
fn a_container_ended_by_others_is_lost_and_can_be_closed() {
    requires!(docker);
    let ways: [&[&str]; 4] =
        [&["rm", "-f"], &["kill"], &["stop", "--time", "1"], &["restart", "--time", "1"]];

    for site in both_ways(docker()) {
        for way in ways {
            let sandbox = site.open_with(&["--on-idle", "destroy"]);
            succeed(site.engine, &[way, &[&container(&sandbox)]].concat());

            let refused = refusal(&site, &sandbox);
            assert_eq!(refused["kind"], "not_available", "{way:?}: {refused}");
            assert_eq!(refused["details"]["state"], "lost", "{way:?}: {refused}");
            site.call(&["close", &sandbox]).succeed();
            assert_eq!(site.state(&sandbox), "destroyed", "{way:?}");
        }
        site.expect_only(&[]);
    }
}

#[test]
fn a_container_renamed_by_others_is_found_by_its_id() {
    requires!(docker);

    for site in both_ways(docker()) {
        let sandbox = site.open();
        succeed(site.engine, &["rename", &container(&sandbox), &format!("renamed-{sandbox}")]);

        site.call(&["gc"]).succeed();
        assert_eq!(site.state(&sandbox), "ready", "a survey finds it");
        assert_eq!(site.exec(&sandbox, "echo works").succeed().text(), "works\n");
        site.call(&["close", &sandbox]).succeed();

        site.expect_only(&[]);
    }
}

#[test]
fn a_container_ended_by_others_during_a_command_loses_the_command() {
    requires!(docker);

    for site in both_ways(docker()) {
        let sandbox = site.open();
        let exec = site.exec(&sandbox, "echo first; sleep 100").start();
        exec.wait_for(|output| output.starts_with(b"first"));

        succeed(site.engine, &["rm", "-f", &container(&sandbox)]);

        let ended = exec.finish();
        assert!(ended.code() == Some(125) && ended.stderr.contains("went away"), "{ended}");
        site.expect_only(&[]);
    }
}

#[test]
fn a_container_paused_by_others_does_not_answer_and_is_not_lost() {
    requires!(docker);

    for site in both_ways(docker()) {
        let (sandbox, closed) = (site.open(), site.open());
        succeed(site.engine, &["pause", &container(&sandbox), &container(&closed)]);

        let refused = refusal(&site, &sandbox);
        assert_eq!(refused["kind"], "not_available", "{refused}");
        site.call(&["close", &closed]).succeed();
        site.expect_only(&[&sandbox]);
        succeed(site.engine, &["unpause", &container(&sandbox)]);

        assert_eq!(site.exec(&sandbox, "echo works").succeed().text(), "works\n");
        site.expect_all_gone();
    }
}

#[test]
fn a_foreign_container_with_the_name_of_ours_is_left_alone() {
    requires!(docker);
    let site = Site::at(docker());
    site.open_call(&[]).env("CORACLE_CRASH_AT", "docker.create.room").run();
    // Not by a listing: that would tidy up first.
    let room = site.home.census().directories.pop().expect("its directory comes before its container");
    let sandbox = room.file_name().expect("a directory has a name").to_string_lossy().into_owned();
    let theirs = container(&sandbox);
    let run = ["run", "--detach", "--network", "none", "--name", &theirs, TEST_IMAGE, "sleep", "1000"];
    let id = succeed(site.engine, &run);

    site.call(&["gc"]).succeed();

    assert_eq!(site.state(&sandbox), "failed");
    assert_eq!(
        succeed(site.engine, &["inspect", "--format", "{{.Id}} {{.State.Running}}", &theirs]),
        format!("{id} true")
    );
    site.expect_only(&[]);
    succeed(site.engine, &["rm", "-f", &theirs]);
}

#[test]
fn an_image_that_claims_to_be_ours_makes_no_container_ours() {
    requires!(docker);
    let site = Site::at(docker());
    let sandbox = site.open();
    let instance = site.home.instance().expect("it was used").to_owned();
    let (of, named) =
        (format!("LABEL coracle.instance={instance}"), format!("LABEL coracle.sandbox={sandbox}"));
    let base = succeed(site.engine, &["create", "--network", "none", TEST_IMAGE, "true"]);
    succeed(site.engine, &["commit", "--change", &of, "--change", &named, &base, "localhost/claims:1"]);
    let run = ["run", "--detach", "--network", "none", "localhost/claims:1", "sleep", "1000"];
    let theirs = succeed(site.engine, &run);

    site.call(&["gc"]).succeed();
    site.call(&["close", &sandbox]).succeed();
    site.call(&["gc"]).succeed();

    assert_eq!(succeed(site.engine, &["inspect", "--format", "{{.State.Running}}", &theirs]), "true");
    site.home.expect_no_orphans();
    succeed(site.engine, &["rm", "-f", &theirs, &base]);
    succeed(site.engine, &["rmi", "-f", "localhost/claims:1"]);
}

#[test]
fn the_guest_is_installed_again_after_others_removed_its_volume() {
    requires!(docker);
    let engine = super::site::engine(coracle_tests::engines::Containers::End);
    let site = Site::at(&engine);
    site.run("true").expect_code(0);
    let volumes = succeed(&engine, &["volume", "ls", "--quiet", "--filter", "name=coracle-guest-"]);
    assert_eq!(volumes.lines().count(), 1, "{volumes}");

    succeed(&engine, &["volume", "rm", &volumes]);

    assert_eq!(site.run("echo works").expect_code(0).text(), "works\n");
    site.expect_only(&[]);
}

#[test]
fn what_fails_after_it_was_made_leaves_nothing() {
    requires!(docker);
    let site = Site::at(docker());

    // Less than any engine gives, and a directory that is not there.
    let small = site.open_call(&["--memory", "4M"]).run();
    let absent = site.open_call(&["--mount", "/nonexistent:/mnt:ro"]).run();

    assert!(small.code() != Some(0) && absent.code() != Some(0), "{small}\n{absent}");
    site.expect_only(&[]);
}
