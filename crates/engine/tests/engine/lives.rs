//! Execs and the lives of their sandbox.

use coracle_core::backend::GuestEnd;
use coracle_core::{Kind, SandboxId, State, Timestamp};
use serde_json::{Value, json};

use super::world::{World, caller};

fn open(world: &World) -> SandboxId {
    let opened = world.ok("run_a", "sandbox_open", json!({"on_idle": "hibernate"}));
    opened["sandbox_id"].as_str().expect("an id").parse().expect("an id of ours")
}

fn exec(id: &SandboxId, exec: &str, more: Value) -> Value {
    let mut input = json!({"sandbox_id": id, "cmd": ["true"], "exec_id": exec});
    input.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
    input
}

#[test]
fn a_command_for_one_life_is_not_started_in_a_later_one() {
    let world = World::new();
    let id = open(&world);
    world.ok("run_a", "sandbox_exec", exec(&id, "exec_first", json!({"life": 1})));
    let again = world.ok("run_a", "sandbox_exec", exec(&id, "exec_first", json!({"life": 1})));
    world.backend.kill_guest(&id);

    let late = world.refused("run_a", "sandbox_exec", exec(&id, "exec_late", json!({"life": 1})));
    world.ok("run_a", "sandbox_exec", exec(&id, "exec_now", json!({"life": 2})));

    assert_eq!(again["exit_code"], 0);
    assert_eq!((late.kind, &late.details["life"]), (Kind::Conflict, &json!(2)), "{}", late.chain());
}

#[test]
fn what_a_killed_guest_ran_is_told_by_its_events_and_its_ids_are_not_used_again() {
    let world = World::new();
    let id = open(&world);
    let input = json!({"sandbox_id": id, "cmd": ["sleep", "60"], "exec_id": "exec_running", "stream": true});
    world.ok("run_a", "sandbox_exec", input);
    world.ok("run_a", "sandbox_exec", exec(&id, "exec_done", json!({})));
    world.engine.records().finish_telling();
    world.backend.kill_guest(&id);

    let ask = |name: &str, exec: &str| world.call("run_a", name, json!({"sandbox_id": id, "exec_id": exec}));
    let read = ask("sandbox_exec_read", "exec_running").expect("it is known to have run");
    let waited = ask("sandbox_exec_wait", "exec_running").expect("it is known to have run");
    let done = ask("sandbox_exec_wait", "exec_done").expect("its end was seen");
    let unknown = ask("sandbox_exec_wait", "exec_never").expect_err("it never was");
    let again = world.refused("run_a", "sandbox_exec", exec(&id, "exec_done", json!({})));
    let mut follow = world
        .engine
        .execs()
        .follow(caller("run_a"), &id, &"exec_running".parse().expect("an id"), 0)
        .expect("it follows");

    for lost in [&read, &waited] {
        assert_eq!((&lost["done"], &lost["outcome"]["kind"]), (&json!(true), &json!("lost")), "{lost}");
    }
    assert_eq!((&done["exit_code"], &done["truncated"]), (&json!(0), &json!(true)));
    assert_eq!(unknown.kind, Kind::NotFound);
    assert_eq!(again.kind, Kind::Conflict, "{}", again.chain());
    assert!(follow.next_batch().expect("one batch").is_some_and(|batch| batch.progress.is_done()));
    assert_eq!(follow.next_batch().expect("the end"), None);
}

#[test]
fn a_guest_that_synced_its_files_before_a_restart_sleeps_and_one_that_did_not_is_lost() {
    let ended = Timestamp::from_millis(7);
    for (end, state) in
        [(GuestEnd::Asleep { ended }, State::Hibernated), (GuestEnd::Idle { ended }, State::Lost)]
    {
        for swept in [false, true] {
            let world = World::new();
            let id = open(&world);
            world.ok(
                "run_a",
                "sandbox_fs_write",
                json!({"sandbox_id": id, "path": "note", "contents": "kept"}),
            );
            world.backend.end_guest(&id, end);
            let engine = world.after_reboot();

            if swept {
                engine.upkeep().sweep().expect("a sweep");
                assert_eq!(world.record(&id).state, state, "{end:?}");
            }
            let read =
                engine.call(caller("run_a"), "sandbox_fs_read", json!({"sandbox_id": id, "path": "note"}));

            match state {
                State::Hibernated => assert_eq!(read.expect("it wakes")["contents"], "kept"),
                _ => {
                    assert!(world.record(&id).reason.is_some_and(|why| why.contains("restarted")), "{read:?}")
                }
            }
        }
    }
}
