//! The output of closed sandboxes can be read for a while, by whoever owned them last.

use std::sync::Arc;
use std::time::{Duration, Instant};

use coracle_core::Kind;
use coracle_engine::{Caller, CrashPoints, Engine, Inline, Parts};
use coracle_testing::backend::crashes;
use coracle_testing::sample;
use serde_json::{Value, json};

use crate::world::{World, caller, parts};

/// Runs a command that prints to both streams, closes the sandbox, and returns both ids.
fn closed(world: &World) -> Value {
    let id = world.open("run_a");
    let ran = world.exec("run_a", &id, &["sh", "-c", "echo out; echo err >&2; exit 3"]);
    world.ok("run_a", "sandbox_close", json!({ "sandbox_id": id }));
    json!({ "sandbox_id": id, "exec_id": ran["exec_id"] })
}

#[test]
fn output_and_end_are_read_after_the_sandbox_is_closed() {
    let world = World::new();
    let gone = closed(&world);

    let read = world.ok("run_a", "sandbox_exec_read", gone.clone());
    let waited = world.ok("run_a", "sandbox_exec_wait", gone.clone());

    assert_eq!(read["chunks"][0]["text"], "out\n");
    assert_eq!(
        (&read["chunks"][1]["text"], &read["chunks"][1]["stream"]),
        (&json!("err\n"), &json!("stderr"))
    );
    assert_eq!((&read["done"], &read["exit_code"]), (&json!(true), &json!(3)));
    assert_eq!((&waited["done"], &waited["exit_code"]), (&json!(true), &json!(3)));
}

#[test]
fn a_follower_gets_it_all_at_once() {
    let world = World::new();
    let gone = closed(&world);
    let (sandbox, exec) = (gone["sandbox_id"].as_str(), gone["exec_id"].as_str());
    let (sandbox, exec) = (sandbox.expect("an id").parse(), exec.expect("an id").parse());

    let mut follow = world
        .engine
        .execs()
        .follow(caller("run_a"), &sandbox.expect("an id"), &exec.expect("an id"), 1)
        .expect("it is kept");
    let batch = follow.next_batch().expect("reads").expect("there is one");

    assert_eq!(batch.chunks.len(), 1);
    assert!(batch.progress.is_done());
    assert_eq!(follow.seq(), 2);
    assert!(follow.next_batch().expect("reads").is_none());
}

#[test]
fn a_follower_that_may_hold_little_gets_it_piece_by_piece() {
    let world = World::new();
    let gone = closed(&world);
    let (sandbox, exec) = (gone["sandbox_id"].as_str(), gone["exec_id"].as_str());
    let (sandbox, exec) = (sandbox.expect("an id").parse(), exec.expect("an id").parse());
    let bounded = world.engine.answering(Inline::at_most(1));

    let mut follow = bounded
        .execs()
        .follow(caller("run_a"), &sandbox.expect("an id"), &exec.expect("an id"), 0)
        .expect("it is kept");
    let mut next = || follow.next_batch().expect("reads");
    let (first, last, none) = (next().expect("the first"), next().expect("the last"), next());

    assert_eq!((first.chunks.len(), first.progress.outcome), (1, None));
    assert_eq!((last.chunks.len(), last.progress.exit_code), (1, Some(3)));
    assert!(last.progress.is_done() && none.is_none());
}

#[test]
fn only_whoever_owned_it_last_reads_it() {
    let world = World::new();
    let gone = closed(&world);

    let refused = world.refused("run_b", "sandbox_exec_read", gone);

    assert_eq!(refused.kind, Kind::NotFound);
}

#[test]
fn it_is_gone_after_its_time() {
    let world = World::new();
    let gone = closed(&world);
    world.clock.advance(Duration::from_secs(3601));

    // Before anybody has swept.
    let refused = world.refused("run_a", "sandbox_exec_read", gone);
    assert_eq!(refused.kind, Kind::NotFound);
    assert_eq!(world.store.kept_logs().count(), 1);

    world.engine.upkeep().sweep().expect("a sweep");
    assert_eq!(world.store.kept_logs().count(), 0);
}

#[test]
fn what_runs_once_leaves_nothing() {
    let world = World::new();

    world.ok("run_a", "sandbox_run", json!({ "cmd": ["echo", "a"] }));

    assert_eq!(world.store.kept_logs().count(), 0);
}

#[test]
fn without_a_time_nothing_is_kept() {
    let world = World::new();
    let logs = Arc::new(world.store.kept_logs().kept_for(Duration::ZERO));
    let engine = Engine::new(Parts {
        logs: Some(logs),
        ..parts(&world.store, &world.backend, &world.clock, &world.keepers)
    });
    let world = World { engine, ..world };

    let gone = closed(&world);

    assert_eq!(world.store.kept_logs().count(), 0);
    assert_eq!(world.refused("run_a", "sandbox_exec_read", gone).kind, Kind::NotFound);
}

#[test]
fn more_than_is_kept_is_said_to_be_missing() {
    let world = World::new();
    let id = world.open("run_a");
    // Chunks of the guest's are small; five of these are more than the four megabytes that are kept.
    let line = "x".repeat(1 << 20);
    let script = format!("echo {line}; echo {line}; echo {line}; echo {line}; echo {line}");
    let input = json!({ "sandbox_id": id, "cmd": ["sh", "-c", script] });
    let Ok(ran) = world.call("run_a", "sandbox_exec", input) else { return };
    world.ok("run_a", "sandbox_close", json!({ "sandbox_id": id }));

    let read = world.ok("run_a", "sandbox_exec_read", json!({ "sandbox_id": id, "exec_id": ran["exec_id"] }));

    assert_eq!(read["truncated"], json!(true), "{}", read["truncation"]);
}

#[test]
fn a_kill_while_it_is_written_leaves_nothing_half_written() {
    for point in ["destroy.logs.written", "destroy.logs.after"] {
        let crash = CrashPoints::calling(move |reached| {
            if reached == point {
                std::panic::resume_unwind(Box::new(coracle_testing::backend::Crash));
            }
        });
        let world = World::crashing(crash);
        let id = world.open("run_a");
        let ran = world.exec("run_a", &id, &["echo", "out"]);
        assert!(
            crashes(|| drop(world.call("run_a", "sandbox_close", json!({ "sandbox_id": id })))),
            "{point}"
        );

        // Another process finishes what the dead one began.
        world.store.let_go_of_all_work();
        let next = Engine::new(parts(&world.store, &world.backend, &world.clock, &world.keepers));
        next.upkeep().sweep().expect("a sweep");
        let world = World { engine: next, ..world };

        let gone = json!({ "sandbox_id": id, "exec_id": ran["exec_id"] });
        assert_eq!(world.ok("run_a", "sandbox_exec_read", gone)["chunks"][0]["text"], "out\n", "{point}");
        assert_eq!(world.store.kept_logs().count(), 1, "{point}");
    }
}

#[test]
fn closing_does_not_wait_for_a_guest_that_is_gone() {
    let world = World::new();
    let id = world.open("run_a");
    world.exec("run_a", &id, &["true"]);
    world.backend.kill_guest(&id);
    let began = Instant::now();

    world.ok("run_a", "sandbox_close", json!({ "sandbox_id": id }));

    assert!(began.elapsed() < Duration::from_secs(8), "{:?}", began.elapsed());
}

#[test]
fn a_tenants_output_is_no_other_tenants() {
    let tenant = |name: &str| Caller { tenant: Some(sample::tenant(name)), ..caller("run_a") };
    let world = World::new();
    let call = |name: &str, input: Value| world.engine.call(tenant("mine"), name, input).expect("done");
    let id = call("sandbox_open", json!({}))["sandbox_id"].clone();
    let ran = call("sandbox_exec", json!({ "sandbox_id": id, "cmd": ["echo", "out"] }));
    call("sandbox_close", json!({ "sandbox_id": id }));

    let gone = json!({ "sandbox_id": id, "exec_id": ran["exec_id"] });
    let reads = |who: &str| world.engine.call(tenant(who), "sandbox_exec_read", gone.clone()).is_ok();

    assert!(reads("mine") && !reads("other"));
}
