//! Which backend makes a sandbox, and what is done about those that do not answer.

use std::sync::Arc;

use coracle_core::selection::Preference;
use coracle_core::{Backend, Error, InstanceId, Kind, Policy, SandboxId, State, Store};
use coracle_engine::{Engine, Parts, Roster};
use coracle_testing::{FakeBackend, Fault, Step, sample};
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

    /// Returns the same home under other rules.
    fn preferring(self, backends: Preference) -> Self {
        let policy = Policy { backends, ..Policy::default() };
        let all: Vec<Arc<dyn Backend>> = vec![Arc::new(self.native.clone()), Arc::new(self.docker.clone())];
        let parts = parts(&self.world.store, &self.world.backend, &self.world.clock, &self.world.keepers);
        Self { engine: Engine::new(Parts { backends: Roster::of(all), policy, ..parts }), ..self }
    }

    fn call(&self, name: &str, input: Value) -> Result<Value, Error> {
        self.engine.call(caller("run_a"), name, input)
    }

    fn open(&self, input: Value) -> SandboxId {
        let reply = self.call("sandbox_open", input).expect("a sandbox");
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
    let (near, far) = (
        fleet.open(json!({"backend": "native", "on_idle": "destroy"})),
        fleet.open(json!({"backend": "docker"})),
    );
    fleet.native.kill_guest(&near);
    fleet.docker.go_away("it was stopped");

    let left = fleet.engine.upkeep().orphans().expect("a look");
    let report = fleet.engine.upkeep().sweep().expect("a sweep");
    fleet.docker.come_back();
    let later = fleet.engine.upkeep().sweep().expect("a sweep");

    assert_eq!((left.orphans.len(), left.trouble.len()), (1, 1));
    assert_eq!((report.lost, report.trouble.len()), (1, 1));
    assert_eq!((later.lost, later.trouble.len()), (0, 0));
    assert_eq!(fleet.world.record(&far).state, State::Ready);
    assert_eq!(fleet.world.record(&near).state, State::Lost);
}

#[test]
fn what_only_a_record_names_is_surveyed_too() {
    let fleet = Fleet::new();
    let id = fleet.open(json!({"backend": "docker", "on_idle": "destroy"}));
    fleet.docker.kill_guest(&id);
    let docker = fleet.docker.clone();
    let parts = parts(&fleet.world.store, &fleet.world.backend, &fleet.world.clock, &fleet.world.keepers);
    let named = Roster::with(Vec::new(), move |name| {
        (name == "docker").then(|| Arc::new(docker.clone()) as Arc<dyn Backend>)
    });

    let report = Engine::new(Parts { backends: named, ..parts }).upkeep().sweep().expect("a sweep");

    assert_eq!((report.lost, report.trouble), (1, Vec::new()));
}

#[test]
fn a_record_of_a_backend_nobody_knows_is_left_alone() {
    let fleet = Fleet::new();
    let id = fleet.open(json!({"backend": "docker"}));

    let report = engine(&fleet.world, &[&fleet.native]).upkeep().sweep().expect("a sweep");

    assert_eq!((report.lost, report.trouble.len()), (0, 1));
    assert_eq!(fleet.world.record(&id).state, State::Ready);
}

#[test]
fn nothing_is_asked_where_there_is_nothing_to_choose() {
    let fleet = Fleet::new();

    fleet.open(json!({}));
    fleet.open(json!({"backend": "docker"}));

    assert_eq!((fleet.native.creates(), fleet.docker.creates()), (1, 1));
    assert_eq!((fleet.native.probes(), fleet.docker.probes()), (0, 0));
}

#[test]
fn nobody_falls_back_unless_it_was_written_down_and_learns_what_could_be_used() {
    let fleet = Fleet::new();
    fleet.native.go_away("no namespaces");

    let refused = fleet.call("sandbox_open", json!({})).expect_err("nothing was written down");

    assert_eq!((refused.kind, fleet.docker.creates()), (Kind::NotAvailable, 0));
    assert_eq!(refused.details["fitting"], json!(["docker"]));
    assert_eq!(refused.details["refused"][0]["backend"], "native");
    let hint = refused.hint.expect("a hint");
    assert!(hint.contains("--backend docker") && hint.contains("fallback = [\"docker\"]"), "{hint}");
}

#[test]
fn a_written_fallback_is_taken_and_the_reason_recorded() {
    let fleet = Fleet::new();
    fleet.native.go_away("no namespaces");

    let opened = fleet.call("sandbox_open", json!({"fallback": ["docker"]})).expect("a sandbox");
    let ran = fleet.call("sandbox_run", json!({"cmd": ["true"], "fallback": ["docker"]})).expect("a run");
    let id = opened["sandbox_id"].clone();
    let shown = fleet.call("sandbox_get", json!({"sandbox_id": id})).expect("it is there");

    for told in [&opened, &ran, &shown] {
        assert_eq!(told["backend"], "docker");
        assert_eq!(told["refused"][0]["backend"], "native");
        let reason = told["refused"][0]["reason"].as_str().expect("a reason");
        assert!(reason.contains("no namespaces"), "{reason}");
    }
    let record = fleet.world.record(&id.as_str().expect("text").parse().expect("an id"));
    assert_eq!((record.backend.as_str(), record.refused.len()), ("docker", 1));
}

#[test]
fn who_names_a_backend_gets_that_one_whatever_the_operator_falls_back_to() {
    let preference = Preference { fallback: vec!["docker".to_owned()], ..Preference::default() };
    let fleet = Fleet::new().preferring(preference);
    fleet.native.go_away("no namespaces");

    let silent = fleet.call("sandbox_open", json!({})).expect("a sandbox");
    let named = fleet.call("sandbox_open", json!({"backend": "native"})).expect_err("that one is away");

    assert_eq!(silent["backend"], "docker");
    assert_eq!(named.kind, Kind::NotAvailable);
}

#[test]
fn auto_takes_the_first_of_the_order_that_fits() {
    let order = Some(vec!["docker".to_owned(), "native".to_owned()]);
    let fleet = Fleet::new().preferring(Preference { order, ..Preference::default() });

    let first = fleet.call("sandbox_open", json!({"backend": "auto"})).expect("a sandbox");
    fleet.docker.lack(&["memory"]);
    let demanding = json!({"backend": "auto", "limits": {"memory_mb": 64}});
    let second = fleet.call("sandbox_open", demanding.clone()).expect("a sandbox");
    fleet.native.lack(&["memory"]);
    let refused = fleet.call("sandbox_open", demanding).expect_err("none enforces it");

    assert_eq!((&first["backend"], &first["refused"]), (&json!("docker"), &json!([])));
    assert_eq!(second["backend"], "native");
    assert_eq!(second["refused"][0]["misfits"], json!(["memory"]));
    assert_eq!(refused.kind, Kind::Unsupported);
    assert_eq!(refused.details["refused"][0]["misfits"], json!(["memory"]));
    assert_eq!(refused.details["refused"][1]["misfits"], json!(["memory"]));
}

#[test]
fn one_that_fails_at_it_is_fallen_back_from_and_leaves_nothing() {
    let fleet = Fleet::new();
    fleet.native.fail_at(Step::GuestStarted, Fault::Fail);

    let input = json!({"session_key": "k", "fallback": ["docker"]});
    let opened = fleet.call("sandbox_open", input.clone()).expect("a sandbox");
    let again = fleet.call("sandbox_open", input).expect("the same");

    assert_eq!((&opened["backend"], &opened["created"]), (&json!("docker"), &json!(true)));
    assert_eq!((&again["sandbox_id"], &again["created"]), (&opened["sandbox_id"], &json!(false)));
    assert_eq!(fleet.native.survey().expect("a survey"), []);
    assert!(fleet.engine.upkeep().orphans().expect("a look").orphans.is_empty());
}

#[test]
fn what_is_wrong_with_the_request_is_no_reason_to_fall_back() {
    let fleet = Fleet::new();

    let input = json!({"image": "docker.io/library/nobody:1", "fallback": ["docker"]});
    let refused = fleet.call("sandbox_open", input).expect_err("there is no such image");

    assert_eq!((refused.kind, fleet.docker.creates()), (Kind::ImageNotFound, 0));
}

#[test]
fn a_name_nobody_knows_is_refused_before_it_is_needed() {
    let fleet = Fleet::new();

    let refused = fleet.call("sandbox_open", json!({"fallback": ["dokcer"]})).expect_err("a typo");
    let impossible = fleet.call("sandbox_open", json!({"backend": "-x"})).expect_err("no name");

    assert_eq!((refused.kind, fleet.native.creates()), (Kind::NotAvailable, 0));
    assert_eq!(refused.details["backends"], json!(["native", "docker"]));
    assert_eq!(impossible.kind, Kind::Invalid);
}
