//! Sessions: found again by their key, made once, made anew when they are gone.

use std::sync::Barrier;

use coracle_core::backend::GuestEnd;
use coracle_core::{Backend, Kind, State, Timestamp};
use coracle_testing::backend::crashes;
use coracle_testing::{Fault, Step};
use serde_json::json;

use crate::world::{World, caller};

#[test]
fn the_first_open_creates_and_the_second_finds() {
    let world = World::new();

    let first = world.ok("run_a", "sandbox_open", json!({"session_key": "k", "labels": {"team": "x"}}));
    let second = world.ok("run_a", "sandbox_open", json!({"session_key": "k"}));

    assert_eq!(first["created"], true);
    assert_eq!(first["state"], "ready");
    assert_eq!(first["owner"], "run_a");
    assert_eq!(first["epoch"], 1);
    assert_eq!(first["backend"], "fake");
    assert_eq!(first["image"], "host");
    assert_eq!(first["workdir"], "/workspace");
    assert_eq!(second["created"], false);
    assert_eq!(second["sandbox_id"], first["sandbox_id"]);
}

#[test]
fn without_a_key_every_open_makes_a_sandbox() {
    let world = World::new();

    assert_ne!(world.open("run_a"), world.open("run_a"));
}

#[test]
fn many_openers_at_once_get_one_sandbox() {
    let world = World::new();
    let start = Barrier::new(20);

    let replies: Vec<_> = std::thread::scope(|scope| {
        let open = || {
            start.wait();
            world.ok("run_a", "sandbox_open", json!({"session_key": "k"}))
        };
        let openers: Vec<_> = (0..20).map(|_| scope.spawn(open)).collect();
        openers.into_iter().map(|opener| opener.join().expect("an opener does not panic")).collect()
    });

    assert_eq!(world.backend.creates(), 1);
    assert_eq!(replies.iter().filter(|reply| reply["created"] == true).count(), 1);
    assert!(replies.iter().all(|reply| reply["sandbox_id"] == replies[0]["sandbox_id"]));
    assert!(replies.iter().all(|reply| reply["state"] == "ready"));
}

#[test]
fn a_failed_creation_does_not_stop_the_next_opener() {
    let world = World::new();
    world.backend.fail_at(Step::GuestStarted, Fault::Fail);

    let error = world.refused("run_a", "sandbox_open", json!({"session_key": "k"}));
    let retry = world.ok("run_a", "sandbox_open", json!({"session_key": "k"}));

    assert_eq!(error.kind, Kind::StartFailed);
    assert!(error.chain().contains("told to fail"), "{}", error.chain());
    assert_eq!(retry["created"], true);
    assert_eq!(world.backend.survey().expect("a survey").len(), 1);
}

#[test]
fn a_creator_that_died_is_cleaned_up_after() {
    for step in [Step::Prepare, Step::Create, Step::DirectoryMade, Step::GuestStarted] {
        let world = World::new();
        world.backend.fail_at(step, Fault::Crash);
        assert!(crashes(|| drop(world.call("run_a", "sandbox_open", json!({"session_key": "k"})))));

        let reply = world.ok("run_a", "sandbox_open", json!({"session_key": "k"}));

        assert_eq!(reply["created"], true, "{step:?}");
        assert_eq!(world.backend.survey().expect("a survey").len(), 1, "{step:?}");
    }
}

#[test]
fn what_could_not_be_removed_after_a_failure_is_left_to_the_janitor() {
    let world = World::new();
    world.backend.fail_at(Step::GuestStarted, Fault::Fail);
    world.backend.fail_at(Step::Destroy, Fault::Fail);

    let error = world.refused("run_a", "sandbox_open", json!({}));

    let id = error.details["sandbox_id"].as_str().expect("the error names it").parse().expect("an id");
    assert!(error.details.contains_key("not_removed"));
    assert_eq!(world.record(&id).state, State::DestroyFailed);
}

#[test]
fn a_session_of_another_run_is_refused_by_name() {
    let world = World::new();
    world.open_key("run_a", Some("k"));

    let error = world.refused("run_b", "sandbox_open", json!({"session_key": "k"}));

    assert_eq!(error.kind, Kind::NotOwner);
    assert_eq!(error.details["owner"], "run_a");
}

#[test]
fn a_session_that_is_nobodys_is_taken() {
    let world = World::new();
    let id = world.open_key("run_a", Some("k"));
    world.ok("run_a", "sandbox_release", json!({"sandbox_id": id}));

    let reply = world.ok("run_b", "sandbox_open", json!({"session_key": "k"}));

    assert_eq!(reply["sandbox_id"], json!(id));
    assert_eq!(reply["owner"], "run_b");
    assert_eq!(reply["epoch"], 3);
}

#[test]
fn a_session_whose_guest_died_is_made_anew() {
    let world = World::new();
    let lost = world.open_without_sleep("run_a", Some("k"));
    world.backend.kill_guest(&lost);

    let reply = world.ok("run_a", "sandbox_open", json!({"session_key": "k"}));

    assert_eq!(reply["created"], true);
    assert_ne!(reply["sandbox_id"], json!(lost));
    assert_eq!(world.record(&lost).state, State::Destroyed);
    assert_eq!(world.backend.survey().expect("a survey").len(), 1);
}

#[test]
fn what_expired_before_a_restart_is_not_lost_by_it() {
    let world = World::new();
    let (idle, lost) = (world.open_without_sleep("run_a", None), world.open_without_sleep("run_a", None));
    world.backend.end_guest(&idle, GuestEnd::Idle { ended: world.record(&idle).created_at });
    let engine = world.after_reboot();

    for sandbox in [&idle, &lost] {
        let input = json!({"sandbox_id": sandbox, "cmd": ["true"]});
        engine.call(caller("run_a"), "sandbox_exec", input).expect_err("it has ended");
    }

    assert_eq!((world.record(&idle).state, world.record(&lost).state), (State::Expired, State::Lost));
}

#[test]
fn the_key_of_what_has_expired_is_free_at_once() {
    let world = World::new();
    let idle = world.open_without_sleep("run_a", Some("k"));
    let ended = Timestamp::from_millis(world.record(&idle).created_at.as_millis() + 3_600_000);
    world.backend.end_guest(&idle, GuestEnd::Idle { ended });

    let reply = world.ok("run_a", "sandbox_open", json!({"session_key": "k"}));

    assert_ne!(reply["sandbox_id"], json!(idle));
    let record = world.record(&idle);
    let since = record.idle_since.expect("it says since when");
    assert_eq!((record.state, ended.since(since)), (State::Expired, record.spec.limits.idle()));
    assert!(record.reason.is_some_and(|reason| reason.contains(&since.to_string())));
    let error = world.refused("run_a", "sandbox_exec", json!({"sandbox_id": idle, "cmd": ["true"]}));
    assert_eq!((error.kind, &error.details["state"]), (Kind::NotFound, &json!("expired")));
    assert_eq!(
        error.chain(),
        format!("sandbox `{idle}` expired: it was idle for 15m (since {since}); its files are gone")
    );
    world.ok("run_a", "sandbox_close", json!({"sandbox_id": idle}));
}

#[test]
fn an_unknown_backend_is_refused_with_those_there_are() {
    let world = World::new();

    let error = world.refused("run_a", "sandbox_open", json!({"backend": "docker"}));

    assert_eq!(error.kind, Kind::NotAvailable);
    assert_eq!(error.details["backends"], json!(["fake"]));
}
