//! Which operations wake a sandbox that sleeps, and how a wake ends that was not waited for.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use coracle_core::{Cancel, Kind, SandboxId, State};
use coracle_engine::{Call, Catalogue, Notice, Observer};
use serde_json::{Value, json};

use crate::tenants::inputs_about;
use crate::world::{World, caller};

/// Whether the end of a guest was noticed yet.
#[derive(Debug, Clone, Copy)]
enum Sleep {
    Unseen,
    Recorded,
}

fn sleeper(world: &World, sleep: Sleep) -> SandboxId {
    let opened = world.ok("run_a", "sandbox_open", json!({"session_key": "k", "on_idle": "hibernate"}));
    let id: SandboxId = opened["sandbox_id"].as_str().expect("an id").parse().expect("an id of ours");
    world.ok("run_a", "sandbox_fs_write", json!({"sandbox_id": id, "path": "x", "contents": "kept"}));
    world.backend.kill_guest(&id);
    if let Sleep::Recorded = sleep {
        world.engine.upkeep().sweep().expect("a sweep");
    }
    id
}

/// Returns what to call every operation with that may be about the sandbox.
fn inputs(id: &SandboxId) -> BTreeMap<&'static str, Value> {
    let more = [
        ("sandbox_open", json!({"session_key": "k"})),
        ("sandbox_stats", json!({"sandbox_id": id})),
        ("event_list", json!({"sandbox_id": id})),
    ];
    inputs_about(id, "exec_none").into_iter().chain(more).collect()
}

#[test]
fn every_operation_wakes_a_sleeper_or_does_not_as_the_catalogue_says() {
    for entry in Catalogue::own().all() {
        let facts = entry.facts;
        let fields = entry.schemas()["input"]["properties"].clone();
        if fields["sandbox_id"].is_null() && fields["session_key"].is_null() {
            assert!(!facts.wakes, "{} is about no sandbox there is", facts.name);
            continue;
        }
        for sleep in [Sleep::Unseen, Sleep::Recorded] {
            let world = World::new();
            let id = sleeper(&world, sleep);
            if facts.name == "sandbox_claim" {
                world.ok("run_a", "sandbox_release", json!({"sandbox_id": id}));
            }
            let inputs = inputs(&id);
            let input = inputs.get(facts.name).unwrap_or_else(|| panic!("say what `{}` takes", facts.name));

            let answer = world.call("run_a", facts.name, input.clone());

            let woken = world.record(&id).life == 2;
            assert_eq!(woken, facts.wakes, "{} {sleep:?}: {answer:?}", facts.name);
        }
    }
}

/// Cancels its call as soon as it hears that a sandbox is being woken.
struct Impatient {
    cancel: Cancel,
    heard: Mutex<Vec<Notice>>,
}

impl Observer for Impatient {
    fn notice(&self, notice: &Notice) {
        self.heard.lock().expect("no panic").push(notice.clone());
        self.cancel.cancel();
    }
}

#[test]
fn a_wake_is_told_to_its_caller_and_one_that_is_cancelled_leaves_it_asleep() {
    let world = World::new();
    let id = sleeper(&world, Sleep::Recorded);
    let cancel = Cancel::default();
    let impatient = Arc::new(Impatient { cancel: cancel.clone(), heard: Mutex::default() });
    let call = Call::by(caller("run_a")).cancelled_by(cancel).watched_by(impatient.clone());
    let read = json!({"sandbox_id": id, "path": "x"});

    let refused = world.engine.call(&call, "sandbox_fs_read", read.clone()).expect_err("it was cancelled");

    assert_eq!(refused.kind, Kind::Aborted, "{}", refused.chain());
    assert_eq!(*impatient.heard.lock().expect("no panic"), [Notice::Waking { sandbox: id.clone() }]);
    assert_eq!(world.record(&id).state, State::Hibernated);
    assert_eq!(world.ok("run_a", "sandbox_fs_read", read)["contents"], "kept");
}

#[test]
fn a_claim_stands_where_its_sandbox_does_not_wake() {
    use coracle_testing::{Fault, Step};

    let world = World::new();
    let id = sleeper(&world, Sleep::Recorded);
    world.ok("run_a", "sandbox_release", json!({"sandbox_id": id}));
    world.backend.fail_at(Step::Wake, Fault::Fail);

    let claimed = world.ok("run_b", "sandbox_claim", json!({"sandbox_id": id}));

    assert_eq!(claimed["owner"], "run_b");
    assert!(claimed["note"].as_str().is_some_and(|note| note.contains("not woken")), "{claimed}");
    assert_eq!(world.record(&id).state, State::Hibernated);
}

#[test]
fn pausing_and_resuming_wake_like_every_use() {
    let world = World::new();
    let id = sleeper(&world, Sleep::Unseen);

    let paused = world.ok("run_a", "sandbox_pause", json!({"sandbox_id": id}));
    world.backend.kill_guest(&id);
    let resumed = world.ok("run_a", "sandbox_resume", json!({"sandbox_id": id}));

    assert_eq!((&paused["state"], &resumed["state"]), (&json!("paused"), &json!("ready")));
    assert_eq!(world.record(&id).life, 3);
}
