//! What happens is told, once, to whoever may know.

use std::thread;
use std::time::{Duration, Instant};

use coracle_core::event::{Filter, Kind};
use coracle_core::{SandboxId, TenantId};
use coracle_engine::{Call, Caller};
use serde_json::{Value, json};

use crate::world::{World, caller};

fn kinds(world: &World, of: &SandboxId) -> Vec<String> {
    let listed = world.ok("run_a", "event_list", json!({ "sandbox_id": of, "max": 1000 }));
    let events = listed["events"].as_array().expect("a list");
    events.iter().map(|event| event["kind"].as_str().expect("a name").to_owned()).collect()
}

fn of_tenant(name: &str) -> Caller {
    let tenant: TenantId = name.parse().expect("an id");
    Caller { tenant: Some(tenant), ..caller("run_a") }
}

#[test]
fn a_life_is_told_from_opening_to_closing() {
    let world = World::new();
    let id = world.open("run_a");
    world.exec("run_a", &id, &["true"]);
    world.ok("run_a", "sandbox_transfer", json!({ "sandbox_id": id, "to": "run_b" }));
    world.ok("run_b", "sandbox_release", json!({ "sandbox_id": id }));
    world.ok("run_a", "sandbox_close", json!({ "sandbox_id": id }));

    let told = kinds(&world, &id);

    assert_eq!(
        told,
        ["opened", "ready", "exec_started", "exec_ended", "lent", "given_back", "destroying", "destroyed"]
    );
}

#[test]
fn an_end_is_told_once_however_many_see_it() {
    let world = World::new();
    let id = world.open("run_a");
    let started = world.ok(
        "run_a",
        "sandbox_exec",
        json!({ "sandbox_id": id, "cmd": ["sh", "-c", "echo a; exit 3"], "stream": true }),
    );
    let exec = &started["exec_id"];

    for _ in 0..3 {
        world.ok("run_a", "sandbox_exec_wait", json!({ "sandbox_id": id, "exec_id": exec }));
        world.ok("run_a", "sandbox_exec_read", json!({ "sandbox_id": id, "exec_id": exec }));
    }

    let listed = world.ok("run_a", "event_list", json!({ "kinds": ["exec_ended"] }));
    let ends = listed["events"].as_array().expect("a list");
    assert_eq!(ends.len(), 1, "{listed}");
    assert_eq!(ends[0]["exec_id"], *exec);
    assert_eq!(ends[0]["details"]["outcome"], json!({ "kind": "exited", "code": 3 }));
}

#[test]
fn an_end_nobody_saw_is_told_when_the_sandbox_is_closed() {
    let world = World::new();
    let id = world.open("run_a");
    let sleeper = world.start_sleeper("run_a", &id);
    let quick =
        world.ok("run_a", "sandbox_exec", json!({ "sandbox_id": id, "cmd": ["false"], "stream": true }));
    // Its end is seen through another sandbox's eyes only: by nobody.
    thread::sleep(Duration::from_millis(50));

    world.ok("run_a", "sandbox_close", json!({ "sandbox_id": id }));

    let listed = world.ok("run_a", "event_list", json!({ "kinds": ["exec_ended"] }));
    let outcome = |exec: &Value| {
        let ends = listed["events"].as_array().expect("a list");
        ends.iter().find(|end| end["exec_id"] == *exec).map(|end| end["details"]["outcome"].clone())
    };
    assert_eq!(outcome(&quick["exec_id"]), Some(json!({ "kind": "exited", "code": 1 })));
    assert_eq!(outcome(&json!(sleeper)), Some(json!({ "kind": "lost" })));
}

#[test]
fn neither_the_command_nor_its_surroundings_are_told() {
    let world = World::new();
    let id = world.open("run_a");
    world.ok(
        "run_a",
        "sandbox_exec",
        json!({
            "sandbox_id": id, "cmd": ["sh", "-c", "echo hush-argument"],
            "env": { "A": "hush-variable" }, "secrets": { "B": "hush-secret" }
        }),
    );
    world.ok("run_a", "sandbox_close", json!({ "sandbox_id": id }));

    let listed = world.ok("run_a", "event_list", json!({ "max": 1000 })).to_string();

    assert!(listed.contains("exec_ended"));
    assert!(!listed.contains("hush"), "{listed}");
}

#[test]
fn a_tenant_sees_its_own_events_only() {
    let world = World::new();
    world.open("run_a");
    let theirs = world
        .engine
        .call(of_tenant("tnt_a"), "sandbox_open", json!({}))
        .expect("a tenant opens")["sandbox_id"]
        .clone();

    let listed = |caller: &Caller| world.engine.call(caller, "event_list", json!({})).expect("lists");
    let (mine, others) = (listed(&of_tenant("tnt_a")), listed(&of_tenant("tnt_b")));

    let seen: Vec<_> =
        mine["events"].as_array().expect("a list").iter().map(|event| &event["sandbox_id"]).collect();
    assert_eq!(seen, [&theirs, &theirs]);
    assert_eq!(others["events"], json!([]));
}

#[test]
fn a_watcher_is_woken_by_what_happens() {
    let world = World::new();
    let mut watch = world.engine.access().watch(&caller("run_a"), 0, Filter::default());
    assert!(watch.next_batch(Duration::ZERO).expect("reads").events.is_empty());

    let page = thread::scope(|scope| {
        let waiting = scope.spawn(|| watch.next_batch(Duration::from_secs(10)).expect("reads"));
        world.open("run_a");
        waiting.join().expect("a watcher does not panic")
    });

    assert_eq!(page.events[0].event.kind, Kind::Opened);
}

#[test]
fn a_list_waits_no_longer_than_the_deadline_of_its_call() {
    let world = World::new();
    let began = Instant::now();
    let call = Call::by(caller("run_a")).until(Some(began + Duration::from_millis(100)));

    let late = world.engine.call(call, "event_list", json!({ "since_seq": 1000, "wait_ms": 60_000 }));

    assert_eq!(late.expect_err("nothing happens").kind, coracle_core::Kind::Timeout);
    assert!(began.elapsed() < Duration::from_secs(30));
}

#[test]
fn a_watcher_that_waits_in_vain_is_told_so_and_can_go_on() {
    let world = World::new();
    world.open("run_a");
    let filter = Filter { kinds: vec![Kind::Destroyed], ..Filter::default() };
    let mut watch = world.engine.access().watch(&caller("run_a"), 0, filter);

    let page = watch.next_batch(Duration::from_millis(120)).expect("reads");

    assert!(page.events.is_empty());
    assert_eq!(watch.seq(), world.engine.records().newest_event().expect("looks"));
}

#[test]
fn a_reader_that_comes_too_late_is_told_so() {
    let world = World::new();
    let first = world.open("run_a");
    world.ok("run_a", "sandbox_close", json!({ "sandbox_id": first }));
    world.clock.advance(Duration::from_secs(8 * 24 * 3600));
    world.open("run_a");
    world.engine.upkeep().sweep().expect("a sweep");

    let late = world.ok("run_a", "event_list", json!({ "since_seq": 1 }));
    let new = world.ok("run_a", "event_list", json!({}));

    assert_eq!(late["missed"], json!(true), "{late}");
    assert_eq!(late["forgotten_seq"], json!(4));
    assert_eq!(new["missed"], json!(false));
    assert_eq!(new["events"][0]["kind"], "opened");
}

#[test]
fn bounds_are_kept() {
    let world = World::new();

    for input in
        [json!({ "max": 0 }), json!({ "max": 1001 }), json!({ "wait_ms": 60_001 }), json!({ "kinds": ["x"] })]
    {
        world.refused("run_a", "event_list", input);
    }
}
