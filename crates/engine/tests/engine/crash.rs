//! Dying at every named point: each is reached, and none leaves anything that a sweep does not settle.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use coracle_core::{Backend, SandboxId, State};
use coracle_engine::{CRASH_POINTS, CrashPoints};
use coracle_testing::backend::{Crash, crashes};
use serde_json::json;

use crate::world::World;

/// Everything a sandbox can go through, as one story.
fn live(world: &World) {
    let input = json!({"session_key": "k", "network": "allow=ok.test,other.test"});
    let id: SandboxId =
        serde_json::from_value(world.ok("run_a", "sandbox_open", input)["sandbox_id"].clone())
            .expect("an id of ours is valid");
    world.exec("run_a", &id, &["echo", "hi"]);
    world.ok("run_a", "sandbox_exec", json!({"sandbox_id": id, "cmd": ["true"], "stream": true}));
    world.ok("run_a", "sandbox_network", json!({"sandbox_id": id, "network": "allow=ok.test"}));
    world.ok("run_a", "sandbox_pause", json!({"sandbox_id": id}));
    world.ok("run_a", "sandbox_resume", json!({"sandbox_id": id}));
    let forked = world.ok("run_a", "sandbox_fork", json!({"sandbox_id": id, "count": 2}));
    for child in forked["sandbox_ids"].as_array().expect("a list") {
        world.ok("run_a", "sandbox_close", json!({"sandbox_id": child}));
    }
    world.ok("run_a", "sandbox_transfer", json!({"sandbox_id": id, "to": "run_b", "running": "kill"}));
    world.ok("run_b", "sandbox_release", json!({"sandbox_id": id}));
    world.ok("run_a", "sandbox_release", json!({"sandbox_id": id}));
    world.ok("run_c", "sandbox_claim", json!({"sandbox_id": id}));
    let replaced = world.ok("run_c", "sandbox_open", json!({"session_key": "k", "replace": true}));
    world.ok("run_c", "sandbox_close", json!({"sandbox_id": replaced["sandbox_id"]}));
}

#[test]
fn every_listed_point_is_reached_and_none_is_unlisted() {
    let reached: Arc<Mutex<BTreeSet<&'static str>>> = Arc::default();
    let seen = reached.clone();
    let world = World::crashing(CrashPoints::calling(move |point| {
        seen.lock().expect("nobody panics with the list").insert(point);
    }));

    live(&world);

    let listed: BTreeSet<_> = CRASH_POINTS.iter().copied().collect();
    assert_eq!(listed.len(), CRASH_POINTS.len(), "a point is listed twice");
    assert_eq!(*reached.lock().expect("nobody panicked with the list"), listed);
}

#[test]
fn dying_at_any_point_leaves_nothing_that_cannot_be_swept() {
    for fatal in CRASH_POINTS {
        let armed = Arc::new(Mutex::new(true));
        let trigger = armed.clone();
        let world = World::crashing(CrashPoints::calling(move |point| {
            let mut armed = trigger.lock().expect("the trigger is not poisoned");
            if point == *fatal && std::mem::take(&mut *armed) {
                drop(armed);
                std::panic::resume_unwind(Box::new(Crash));
            }
        }));

        assert!(crashes(|| live(&world)), "{fatal} was not reached");
        world.engine.upkeep().sweep().expect("a sweep");

        assert!(world.engine.upkeep().orphans().expect("a look").orphans.is_empty(), "{fatal}");
        settled(&world, fatal);
    }
}

/// Whoever still owns a sandbox can use and close it; then nothing is left at all.
fn settled(world: &World, fatal: &str) {
    for sandbox in world.ok("run_a", "sandbox_list", json!({}))["sandboxes"].as_array().expect("a list") {
        let id = &sandbox["sandbox_id"];
        let owner = sandbox["owner"].as_str().unwrap_or("run_z");
        world.ok(owner, "sandbox_claim", json!({"sandbox_id": id}));
        if sandbox["state"] == json!(State::Paused) {
            world.ok(owner, "sandbox_resume", json!({"sandbox_id": id}));
        } else {
            assert_eq!(sandbox["state"], json!(State::Ready), "{fatal}");
        }
        let reply = world.ok(owner, "sandbox_exec", json!({"sandbox_id": id, "cmd": ["echo", "alive"]}));
        assert_eq!(reply["stdout"], "alive\n", "{fatal}");
        world.ok(owner, "sandbox_close", json!({"sandbox_id": id}));
    }
    assert!(world.backend.survey().expect("a survey").is_empty(), "{fatal}");
    let entries = std::fs::read_dir(world.keepers.path()).expect("it is there").flatten();
    assert_eq!(entries.count(), 0, "{fatal}: a keeper is left");
}
