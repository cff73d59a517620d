//! Engines that do not answer: nobody waits for them who has something else to do, and one can give up on them.

use std::sync::Arc;
use std::time::Duration;

use coracle_core::store::Which;
use coracle_core::{Backend, Kind, SandboxId, State, Store};
use coracle_engine::{Caller, Engine, Parts, Roster};
use coracle_testing::{FakeBackend, sample};
use serde_json::{Value, json};

use crate::world::{World, caller, parts};

/// A home with a backend on this machine, `fake`, and one that is an engine, `far`.
struct Home {
    world: World,
    far: FakeBackend,
    engine: Engine,
}

impl Home {
    fn new() -> Self {
        let world = World::new();
        let far = FakeBackend::far(world.store.instance().expect("a store has an instance")).called("far");
        let all: Vec<Arc<dyn Backend>> = vec![Arc::new(world.backend.clone()), Arc::new(far.clone())];
        let parts = parts(&world.store, &world.backend, &world.clock, &world.keepers);
        let engine = Engine::new(Parts { backends: Roster::of(all), ..parts });
        Self { world, far, engine }
    }

    fn open(&self, input: Value) -> SandboxId {
        let reply = self.engine.call(caller("run_a"), "sandbox_open", input).expect("a sandbox");
        reply["sandbox_id"].as_str().expect("an id is text").parse().expect("an id of ours is valid")
    }

    fn glance(&self) -> Vec<String> {
        self.engine.upkeep().glance(Duration::from_millis(50)).expect("a look").silent
    }
}

#[test]
fn a_glance_waits_for_no_engine_and_does_not_ask_it_again_at_once() {
    let home = Home::new();
    let here = home.open(json!({"backend": "fake", "on_idle": "destroy"}));
    home.open(json!({"backend": "far"}));
    home.world.backend.kill_guest(&here);
    home.far.stop_answering();

    let first = home.engine.upkeep().glance(Duration::from_millis(50)).expect("a look");
    let asked = home.far.surveys();
    let second = home.glance();

    // What is on this machine was looked after all the same.
    assert_eq!((first.report.lost, first.silent), (1, vec!["far".to_owned()]));
    assert_eq!(second, ["far"]);
    assert_eq!(home.far.surveys(), asked);
    home.far.answer_again();
}

#[test]
fn an_engine_that_answers_again_is_asked_again() {
    let home = Home::new();
    home.far.stop_answering();
    assert_eq!(home.glance(), ["far"]);

    home.far.answer_again();
    home.engine.upkeep().sweep().expect("a sweep waits, and hears it");

    // An engine that answers is heard however long a busy machine takes to ask it.
    let heard = home.engine.upkeep().glance(Duration::from_secs(60)).expect("a look");
    assert_eq!(heard.silent, [""; 0]);
}

#[test]
fn a_sandbox_on_a_dead_engine_can_be_given_up() {
    let home = Home::new();
    let id = home.open(json!({"backend": "far", "session_key": "k"}));
    home.far.go_away("it was stopped");
    let close = |forget: bool| {
        home.engine.call(caller("run_a"), "sandbox_close", json!({"sandbox_id": id, "forget": forget}))
    };

    let refused = close(false).expect_err("nobody can remove it");
    let closed = close(true).expect("it is given up");

    assert_eq!(refused.kind, Kind::NotAvailable);
    assert!(refused.hint.iter().any(|hint| hint.contains("--forget")), "{:?}", refused.hint);
    let left = format!("the guest of `{id}` on another machine");
    assert_eq!(closed["left_behind"], json!([left]));
    let record = home.world.record(&id);
    assert_eq!(record.state, State::Destroyed);
    assert!(record.reason.as_ref().is_some_and(|reason| reason.contains(&left)), "{:?}", record.reason);
    let listed = home.engine.call(caller("run_a"), "event_list", json!({"sandbox_id": id})).expect("events");
    let last = listed["events"].as_array().and_then(|events| events.last()).expect("there are some");
    assert_eq!(last["kind"], "destroyed");
    assert!(last["details"]["reason"].as_str().is_some_and(|reason| reason.contains("given up")), "{last}");
    // The key is free.
    let next = home.open(json!({"backend": "fake", "session_key": "k"}));
    assert_ne!(next, id);
}

#[test]
fn what_was_given_up_is_removed_when_its_engine_is_back() {
    let home = Home::new();
    let id = home.open(json!({"backend": "far"}));
    home.far.go_away("it was stopped");
    let given_up = json!({"sandbox_id": id, "forget": true});
    home.engine.call(caller("run_a"), "sandbox_close", given_up).expect("it is given up");

    home.far.come_back();
    let report = home.engine.upkeep().sweep().expect("a sweep");

    assert_eq!(report.swept, 1);
    assert!(home.far.survey().expect("a survey").is_empty());
}

#[test]
fn a_tenant_may_not_give_up_on_a_sandbox() {
    let home = Home::new();
    let tenant = Caller { tenant: Some(sample::tenant("t1")), ..caller("run_a") };
    let opened = home.engine.call(&tenant, "sandbox_open", json!({"backend": "far"})).expect("a sandbox");
    home.far.go_away("it was stopped");

    let input = json!({"sandbox_id": opened["sandbox_id"], "forget": true});
    let refused = home.engine.call(&tenant, "sandbox_close", input).expect_err("it is the operator's to say");

    assert_eq!(refused.kind, Kind::Denied);
    assert_eq!(home.world.store.list(Which::Live).expect("the store answers")[0].state, State::Ready);
}

#[test]
fn nothing_is_given_up_that_can_be_removed() {
    let home = Home::new();
    let id = home.open(json!({"backend": "far"}));

    let input = json!({"sandbox_id": id, "forget": true});
    let closed = home.engine.call(caller("run_a"), "sandbox_close", input).expect("it is removed");

    assert_eq!(closed.get("left_behind"), None);
    assert_eq!(home.world.record(&id).reason, None);
    assert!(home.far.survey().expect("a survey").is_empty());
}

#[test]
fn a_purge_gives_up_only_on_those_it_was_told_of_and_that_do_not_answer() {
    let home = Home::new();
    let id = home.open(json!({"backend": "far"}));
    home.open(json!({"backend": "fake"}));

    home.far.go_away("it was stopped");
    let stuck = home.engine.upkeep().purge(&[]).expect("a purge");
    let purged = home.engine.upkeep().purge(&["far".to_owned(), "fake".to_owned()]).expect("a purge");

    assert!(!stuck.trouble.is_empty());
    assert_eq!(purged.trouble, Vec::<String>::new());
    assert!(purged.forgotten.iter().any(|left| left.contains(id.as_str())), "{:?}", purged.forgotten);
    assert!(home.world.backend.survey().expect("a survey").is_empty());
    assert!(home.world.store.list(Which::Live).expect("the store answers").is_empty());
}

#[test]
fn what_is_in_quarantine_is_not_to_be_claimed_but_closed() {
    let world = World::new();
    let id: SandboxId = "sbx_01hqz0000000000000000000zz".parse().expect("an id");
    world.backend.plant(&id);
    world.engine.upkeep().sweep().expect("a sweep");

    let refused = world.refused("run_a", "sandbox_exec", json!({"sandbox_id": id, "cmd": ["true"]}));

    assert_eq!(refused.kind, Kind::Conflict);
    let hint = refused.hint.expect("it says what helps");
    assert!(hint.contains(&format!("coracle close {id}")), "{hint}");
    world.ok("run_a", "sandbox_close", json!({"sandbox_id": id}));
}
