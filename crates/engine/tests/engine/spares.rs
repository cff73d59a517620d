//! Sandboxes made ahead: given out once, never shown before, gone with whoever tends them.

use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use coracle_core::store::{Store, Which};
use coracle_core::{Backend, Kind, Record, SandboxId, State};
use coracle_engine::{CrashPoints, SparePool};
use coracle_testing::backend::{Crash, crashes};
use serde_json::{Value, json};

use crate::world::{World, caller};

/// What one-shots are made as, and with it everything that is made ahead.
fn light() -> Value {
    json!({"storage": "memory"})
}

fn spares(world: &World) -> Vec<Record> {
    let mut records = world.store.list(Which::Live).expect("the store answers");
    records.retain(|record| record.state == State::Spare);
    records
}

/// Waits until so many spares can be taken.
fn await_spares(world: &World, pool: &SparePool, count: usize) -> Vec<Record> {
    let deadline = Instant::now() + Duration::from_secs(10);
    while pool.ready() != count {
        assert!(Instant::now() < deadline, "there are {} spares and not {count}", pool.ready());
        std::thread::yield_now();
    }
    spares(world)
}

fn open(world: &World, input: Value) -> SandboxId {
    let reply = world.ok("run_a", "sandbox_open", input);
    reply["sandbox_id"].as_str().expect("an id is text").parse().expect("an id of ours is valid")
}

#[test]
fn the_next_of_a_kind_was_made_ahead_and_is_the_callers_alone() {
    let world = World::new();
    let pool = world.engine.lifecycle().keep_spares(1);
    open(&world, light());
    let [spare] = &await_spares(&world, &pool, 1)[..] else { panic!("there is one") };

    let taken = open(&world, json!({"storage": "memory", "env": {"A": "b"}, "labels": {"c": "d"}}));

    assert_eq!(taken, spare.id);
    let record = world.record(&taken);
    assert_eq!((record.state, record.lease.owner().map(|run| run.as_str())), (State::Ready, Some("run_a")));
    assert_eq!(record.spec.env["A"], "b");
    assert_eq!(
        world.refused("run_b", "sandbox_exec", json!({"sandbox_id": taken, "cmd": ["true"]})).kind,
        Kind::NotOwner
    );
    assert_ne!(await_spares(&world, &pool, 1)[0].id, taken);
}

#[test]
fn a_spare_is_shown_to_nobody_and_nobodys_to_use() {
    let world = World::new();
    let pool = world.engine.lifecycle().keep_spares(1);
    open(&world, light());
    let id = await_spares(&world, &pool, 1)[0].id.clone();

    let listed = world.ok("run_a", "sandbox_list", json!({"all": true}));

    let ids: Vec<_> =
        listed["sandboxes"].as_array().expect("a list").iter().map(|one| &one["sandbox_id"]).collect();
    assert!(!ids.contains(&&json!(id)), "{ids:?}");
    for (operation, input) in [
        ("sandbox_exec", json!({"sandbox_id": id, "cmd": ["true"]})),
        ("sandbox_claim", json!({"sandbox_id": id})),
        ("sandbox_transfer", json!({"sandbox_id": id, "to": "run_b"})),
    ] {
        assert_eq!(world.refused("run_a", operation, input).kind, Kind::NotFound, "{operation}");
    }
}

#[test]
fn what_differs_in_more_than_a_guest_can_be_told_is_not_made_ahead() {
    let world = World::new();
    let pool = world.engine.lifecycle().keep_spares(1);
    open(&world, light());
    let before = await_spares(&world, &pool, 1)[0].id.clone();

    for other in [
        json!({"storage": "memory", "limits": {"memory_mb": 300}}),
        json!({"storage": "memory", "privileges": "install"}),
        json!({}),
    ] {
        assert_ne!(open(&world, other.clone()), before, "{other}");
    }
}

#[test]
fn a_dropped_pool_leaves_nothing_behind() {
    let world = World::new();
    let pool = world.engine.lifecycle().keep_spares(3);
    for _ in 0..5 {
        world.ok("run_a", "sandbox_run", json!({"cmd": ["true"]}));
    }

    drop(pool);

    assert!(world.store.list(Which::Live).expect("the store answers").is_empty());
    assert!(world.backend.survey().expect("a survey").is_empty());
}

#[test]
fn a_sweep_leaves_tended_spares_alone_and_removes_those_of_the_dead() {
    let world = World::new();
    let pool = world.engine.lifecycle().keep_spares(2);
    open(&world, light());
    await_spares(&world, &pool, 2);

    world.engine.upkeep().sweep().expect("a sweep");
    assert_eq!(spares(&world).len(), 2);

    // As if by `kill -9`: nobody says goodbye, but what a process held is let go.
    world.store.let_go_of_all_work();
    std::mem::forget(pool);
    world.engine.upkeep().sweep().expect("a sweep");

    assert_eq!(spares(&world).len(), 0);
}

#[test]
fn a_sandbox_that_is_opened_has_nothing_running_in_it() {
    let world = World::new();
    let pool = world.engine.lifecycle().keep_spares(1);
    let input = json!({"storage": "memory", "runtime": "python"});
    open(&world, input.clone());
    let [spare] = &await_spares(&world, &pool, 1)[..] else { panic!("there is one") };

    let taken = open(&world, input);

    assert_eq!(taken, spare.id);
    let shown = world.ok("run_a", "sandbox_get", json!({"sandbox_id": taken}));
    assert_eq!(
        shown["execs"]
            .as_array()
            .map_or(0, |execs| execs.iter().filter(|exec| exec["running"] == true).count()),
        0
    );
}

#[test]
fn only_the_owner_dismisses_a_sandbox() {
    let world = World::new();
    let pool = world.engine.lifecycle().keep_spares(1);
    let theirs = open(&world, light());

    let refused = world.engine.lifecycle().dismiss(&caller("run_b"), &theirs).expect_err("it is another's");

    assert_eq!(refused.kind, Kind::NotOwner);
    assert_eq!(world.record(&theirs).state, State::Ready);
    world.engine.lifecycle().dismiss(&caller("run_a"), &theirs).expect("the owner may");
    drop(pool);
    assert_eq!(world.record(&theirs).state, State::Destroyed);
}

/// The tie comes with the adoption: between the two there is no moment at which a dead maker leaves a sandbox of its run.
#[test]
fn a_run_in_a_spare_leaves_no_guest_when_its_process_dies_before_the_command_starts() {
    let fatal = Arc::new(AtomicBool::new(false));
    let armed = fatal.clone();
    let world = World::crashing(CrashPoints::calling(move |point| {
        if point == "exec.admit.after" && armed.load(Ordering::Relaxed) {
            std::panic::resume_unwind(Box::new(Crash));
        }
    }));
    let pool = world.engine.lifecycle().keep_spares(1);
    open(&world, light());
    let [spare] = &await_spares(&world, &pool, 1)[..] else { panic!("there is one") };
    let placement = spare.placement.clone().expect("a spare has a placement");
    let guest = world.backend.connect(&spare.id, &placement).expect("its guest is there");
    fatal.store(true, Ordering::Relaxed);

    let died = crashes(|| drop(world.call("run_a", "sandbox_run", json!({"cmd": ["true"]}))));

    assert!(died, "the run does not reach the point");
    assert_eq!(world.record(&spare.id).state, State::Ready, "it took no spare");
    // The connection ends with the guest.
    guest.set_read_timeout(Some(Duration::from_secs(30))).expect("a stream takes a timeout");
    assert_eq!((&guest).read(&mut [0]).ok(), Some(0));
}
