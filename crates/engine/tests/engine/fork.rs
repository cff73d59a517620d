//! Forking, as the engine sees it.

use coracle_core::{Backend, Kind, SandboxId, State};
use coracle_testing::backend::{Fault, Step};
use serde_json::{Value, json};

use crate::world::World;

fn write(world: &World, run: &str, id: &SandboxId, contents: &str) {
    world.ok(run, "sandbox_fs_write", json!({"sandbox_id": id, "path": "f", "contents": contents}));
}

fn read(world: &World, run: &str, id: &SandboxId) -> Value {
    world.ok(run, "sandbox_fs_read", json!({"sandbox_id": id, "path": "f"}))["contents"].clone()
}

fn ids(forked: &Value) -> Vec<SandboxId> {
    let ids = forked["sandbox_ids"].as_array().expect("a list of ids").iter();
    ids.map(|id| id.as_str().expect("an id is text").parse().expect("an id of ours is valid")).collect()
}

#[test]
fn a_fork_has_the_files_and_its_own_life() {
    let world = World::new();
    let parent = world.open("run_a");
    write(&world, "run_a", &parent, "before");

    let forked = world.ok("run_a", "sandbox_fork", json!({"sandbox_id": parent, "count": 2}));

    let children = ids(&forked);
    assert_eq!((forked["method"].as_str(), children.len()), (Some("layered"), 2));
    write(&world, "run_a", &parent, "parent's");
    write(&world, "run_a", &children[0], "child's");
    assert_eq!(read(&world, "run_a", &parent), "parent's");
    assert_eq!(read(&world, "run_a", &children[0]), "child's");
    assert_eq!(read(&world, "run_a", &children[1]), "before");
    assert_eq!(world.record(&children[0]).forked_from, Some(parent.clone()));
    world.ok("run_a", "sandbox_close", json!({"sandbox_id": parent}));
    assert_eq!(read(&world, "run_a", &children[1]), "before");
}

#[test]
fn a_fork_belongs_to_who_asked_and_only_the_owner_may_ask() {
    let world = World::new();
    let parent = world.open("run_a");

    let refused = world.refused("run_b", "sandbox_fork", json!({"sandbox_id": parent}));
    let child = ids(&world.ok("run_a", "sandbox_fork", json!({"sandbox_id": parent}))).remove(0);

    assert_eq!(refused.kind, Kind::NotOwner);
    world.ok("run_a", "sandbox_transfer", json!({"sandbox_id": child, "to": "run_b"}));
    assert_eq!(
        world.refused("run_a", "sandbox_exec", json!({"sandbox_id": child, "cmd": ["true"]})).kind,
        Kind::LentOut
    );
    world.exec("run_a", &parent, &["true"]);
}

#[test]
fn what_runs_is_not_forked_and_goes_on() {
    let world = World::new();
    let parent = world.open("run_a");
    world.start_sleeper("run_a", &parent);

    let forked = world.ok("run_a", "sandbox_fork", json!({"sandbox_id": parent}));

    assert_eq!(forked["method"], "copied");
    let child = ids(&forked).remove(0);
    let running = |id: &SandboxId| {
        world.ok("run_a", "sandbox_get", json!({"sandbox_id": id}))["guest"]["running"].clone()
    };
    assert_eq!((running(&parent), running(&child)), (json!(1), json!(0)));
}

#[test]
fn keys_name_the_forks_and_one_that_is_taken_refuses_all() {
    let world = World::new();
    let parent = world.open_key("run_a", Some("trunk"));

    let keys = json!({"sandbox_id": parent, "session_keys": ["one", "two"]});
    let children = ids(&world.ok("run_a", "sandbox_fork", keys));
    let taken = json!({"sandbox_id": parent, "session_keys": ["three", "trunk"]});
    let refused = world.refused("run_a", "sandbox_fork", taken);

    assert_eq!(world.open_key("run_a", Some("two")), children[1]);
    assert_eq!(refused.kind, Kind::Conflict);
    assert_eq!(world.backend.survey().expect("a survey").len(), 3, "nothing of the second attempt is left");
    let again = world.ok("run_a", "sandbox_fork", json!({"sandbox_id": parent, "session_keys": ["three"]}));
    assert_eq!(ids(&again).len(), 1);
}

#[test]
fn all_come_to_be_or_none() {
    for step in [Step::TakeFiles, Step::Create, Step::DirectoryMade, Step::GuestStarted] {
        let world = World::new();
        let parent = world.open("run_a");
        world.backend.fail_at(step, Fault::Fail);

        world.refused("run_a", "sandbox_fork", json!({"sandbox_id": parent, "count": 3}));

        assert_eq!(world.backend.survey().expect("a survey").len(), 1, "{step:?}");
        assert_eq!(world.record(&parent).state, State::Ready, "{step:?}");
        world.exec("run_a", &parent, &["true"]);
    }
}

#[test]
fn a_backend_that_cannot_fork_or_snapshot_says_so() {
    let world = World::bare();
    let parent = world.open("run_a");

    for (operation, attempt) in
        [("sandbox_fork", "fork a sandbox"), ("sandbox_snapshot", "keep a sandbox's files as an image")]
    {
        let error = world.refused("run_a", operation, json!({"sandbox_id": parent}));

        assert_eq!(error.kind, Kind::Unsupported, "{operation}");
        assert_eq!(error.message, format!("backend `fake` cannot {attempt}"));
        assert_eq!(error.details["backend"], "fake");
    }
    assert_eq!(world.backend.survey().expect("a survey").len(), 1, "nothing was made");
    assert_eq!(world.record(&parent).state, State::Ready);
}

#[test]
fn a_count_nobody_can_mean_is_refused() {
    let world = World::new();
    let parent = world.open("run_a");

    for wrong in [
        json!({"sandbox_id": parent, "count": 0}),
        json!({"sandbox_id": parent, "count": 101}),
        json!({"sandbox_id": parent, "count": 2, "session_keys": ["one"]}),
    ] {
        assert_eq!(world.refused("run_a", "sandbox_fork", wrong).kind, Kind::Invalid);
    }
}

#[test]
fn what_can_be_written_by_all_is_shared_only_on_request() {
    let world = World::new();
    let opened =
        world.ok("run_a", "sandbox_open", json!({"mounts": [{"source": "data", "target": "/data"}]}));
    let parent = &opened["sandbox_id"];

    let refused = world.refused("run_a", "sandbox_fork", json!({"sandbox_id": parent}));

    assert_eq!(refused.kind, Kind::Conflict);
    world.ok("run_a", "sandbox_fork", json!({"sandbox_id": parent, "share_mounts": true}));
}

#[test]
fn a_paused_sandbox_is_forked_and_stays_paused() {
    let world = World::new();
    let parent = world.open("run_a");
    world.ok("run_a", "sandbox_pause", json!({"sandbox_id": parent}));

    let child = ids(&world.ok("run_a", "sandbox_fork", json!({"sandbox_id": parent}))).remove(0);

    assert_eq!(world.record(&parent).state, State::Paused);
    world.exec("run_a", &child, &["true"]);
}
