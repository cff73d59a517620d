//! Which backend makes a sandbox, and what is done about those that do not answer.

use std::sync::Arc;

use coracle_core::testing::{FakeBackend, sample};
use coracle_core::{Backend, InstanceId, Kind, SandboxId, State, Store};
use coracle_engine::{Engine, Parts, Roster};
use serde_json::{Value, json};

use crate::world::{World, caller, parts};

/// A home with several backends: `native`, `docker`, and whatever is named `far://…`.
struct Fleet {
    world: World,
    native: FakeBackend,
    docker: FakeBackend,
    engine: Engine,
}

impl Fleet {
    fn new() -> Self {
        let world = World::new();
        let instance = world.store.instance().expect("a store has an instance");
        let backend = |name: &str| FakeBackend::new(instance.clone()).called(name);
        let (native, docker) = (backend("native"), backend("docker"));
        let engine = engine(&world, &[&native, &docker]);
        Self { world, native, docker, engine }
    }

    fn open(&self, input: Value) -> SandboxId {
        let reply = self.engine.call(&caller("run_a"), "sandbox_open", input).expect("a sandbox");
        reply["sandbox_id"].as_str().expect("an id is text").parse().expect("an id of ours is valid")
    }
}

fn engine(world: &World, backends: &[&FakeBackend]) -> Engine {
    let all = backends.iter().map(|backend| Arc::new((*backend).clone()) as Arc<dyn Backend>).collect();
    let parts = parts(&world.store, &world.backend, &world.clock, &world.keepers);
    Engine::new(Parts { backends: Roster::of(all), ..parts })
}

/// Returns a roster that makes whatever is called `far://…`.
fn roster(instance: InstanceId) -> Roster {
    let all: Vec<Arc<dyn Backend>> = vec![Arc::new(FakeBackend::new(instance.clone()))];
    Roster::with(all, move |name| {
        let far = FakeBackend::new(instance.clone()).called(name);
        name.starts_with("far://").then(|| Arc::new(far) as Arc<dyn Backend>)
    })
}

#[test]
fn a_name_leads_to_the_same_backend_each_time() {
    let roster = roster(sample::instance());

    let first = roster.named("far://a").expect("it can be made");
    let others: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(|| roster.named("far://a"))).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic").expect("it is there")).collect()
    });

    assert!(others.iter().all(|other| Arc::ptr_eq(first, other)));
    assert!(!Arc::ptr_eq(first, roster.named("far://b").expect("it can be made")));
    assert_eq!(roster.named("fake").expect("of the roll-call").name(), "fake");
    assert_eq!(roster.all().len(), 1);
}

#[test]
fn what_callers_name_is_bounded_and_what_is_known_stays_usable() {
    let roster = roster(sample::instance());

    let refused = (0..100).map(|number| roster.named(&format!("far://{number}"))).find_map(Result::err);

    assert_eq!(refused.expect("a hundred are too many").kind, Kind::LimitExceeded);
    assert!(roster.named("far://0").is_ok() && roster.named("fake").is_ok());
    assert_eq!(roster.named("near://a").err().expect("no such kind").kind, Kind::NotAvailable);
}

#[test]
fn a_backend_that_does_not_answer_is_trouble_for_itself_alone() {
    let fleet = Fleet::new();
    let (near, far) = (fleet.open(json!({"backend": "native"})), fleet.open(json!({"backend": "docker"})));
    fleet.native.kill_guest(&near);
    fleet.docker.go_away("it was stopped");

    let left = fleet.engine.orphans().expect("a look");
    let report = fleet.engine.sweep().expect("a sweep");
    fleet.docker.come_back();
    let later = fleet.engine.sweep().expect("a sweep");

    assert_eq!((left.orphans.len(), left.trouble.len()), (1, 1));
    assert_eq!((report.lost, report.trouble.len()), (1, 1));
    assert_eq!((later.lost, later.trouble.len()), (0, 0));
    assert_eq!(fleet.world.record(&far).state, State::Ready);
    assert_eq!(fleet.world.record(&near).state, State::Lost);
}

#[test]
fn what_only_a_record_names_is_surveyed_too() {
    let fleet = Fleet::new();
    let id = fleet.open(json!({"backend": "docker"}));
    fleet.docker.kill_guest(&id);
    let docker = fleet.docker.clone();
    let parts = parts(&fleet.world.store, &fleet.world.backend, &fleet.world.clock, &fleet.world.keepers);
    let named = Roster::with(Vec::new(), move |name| {
        (name == "docker").then(|| Arc::new(docker.clone()) as Arc<dyn Backend>)
    });

    let report = Engine::new(Parts { backends: named, ..parts }).sweep().expect("a sweep");

    assert_eq!((report.lost, report.trouble), (1, Vec::new()));
}

#[test]
fn a_record_of_a_backend_nobody_knows_is_left_alone() {
    let fleet = Fleet::new();
    let id = fleet.open(json!({"backend": "docker"}));

    let report = engine(&fleet.world, &[&fleet.native]).sweep().expect("a sweep");

    assert_eq!((report.lost, report.trouble.len()), (0, 1));
    assert_eq!(fleet.world.record(&id).state, State::Ready);
}
