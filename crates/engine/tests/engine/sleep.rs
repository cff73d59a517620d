//! Sleep and waking on a backend whose faults are ordered.

use std::time::Duration;

use coracle_core::backend::GuestEnd;
use coracle_core::{Kind, SandboxId, State};
use coracle_engine::janitor::Report;
use coracle_testing::{Fault, Step};
use serde_json::json;

use super::world::{World, caller};

/// Opens a sandbox that hibernates, with a file in it.
fn sleeper(world: &World) -> SandboxId {
    let opened = world.ok("run_a", "sandbox_open", json!({"session_key": "k", "on_idle": "hibernate"}));
    let id: SandboxId = opened["sandbox_id"].as_str().expect("an id").parse().expect("an id of ours");
    world.ok("run_a", "sandbox_fs_write", json!({"sandbox_id": id, "path": "note", "contents": "kept"}));
    id
}

fn note(world: &World, id: &SandboxId) -> serde_json::Value {
    world.ok("run_a", "sandbox_fs_read", json!({"sandbox_id": id, "path": "note"}))["contents"].clone()
}

#[test]
fn a_sleeper_wakes_with_its_files_its_key_and_its_epoch() {
    for end in [None, Some(GuestEnd::Idle { ended: coracle_core::Timestamp::from_millis(7) })] {
        let world = World::new();
        let id = sleeper(&world);
        let before = world.record(&id);
        match end {
            None => world.backend.kill_guest(&id),
            Some(end) => world.backend.end_guest(&id, end),
        }

        let report = world.engine.upkeep().sweep().expect("a sweep");
        let asleep = world.record(&id);
        let opened = world.ok("run_a", "sandbox_open", json!({"session_key": "k"}));

        assert_eq!(report, Report { rested: 1, ..Report::default() });
        assert_eq!((asleep.state, asleep.kept.is_some()), (State::Hibernated, true));
        assert_eq!((&opened["sandbox_id"], &opened["created"]), (&json!(id), &json!(false)));
        assert_eq!(note(&world, &id), "kept");
        let after = world.record(&id);
        assert_eq!((after.state, after.life, after.kept), (State::Ready, 2, None));
        assert_eq!((after.lease, after.key), (before.lease, before.key));
        assert_ne!(after.secret, before.secret, "a guest of an earlier life is no guest of this one");
    }
}

#[test]
fn a_wake_that_fails_leaves_it_asleep() {
    for step in [Step::Wake, Step::GuestStarted] {
        let world = World::new();
        let id = sleeper(&world);
        world.backend.kill_guest(&id);
        world.backend.fail_at(step, Fault::Fail);

        let refused = world.refused("run_a", "sandbox_exec", json!({"sandbox_id": id, "cmd": ["true"]}));
        world.backend.fail_at(step, Fault::Fail);
        let by_key = world.refused("run_a", "sandbox_open", json!({"session_key": "k"}));

        assert_eq!(by_key.kind, Kind::StartFailed, "{step:?}: {}", by_key.chain());
        assert_eq!(refused.kind, Kind::StartFailed, "{step:?}: {}", refused.chain());
        assert_eq!(world.record(&id).state, State::Hibernated, "{step:?}");
        assert_eq!(note(&world, &id), "kept", "{step:?}");
    }
}

#[test]
fn no_other_run_wakes_a_sleeper() {
    let world = World::new();
    let id = sleeper(&world);
    world.backend.kill_guest(&id);
    world.engine.upkeep().sweep().expect("a sweep");

    world.refused("run_b", "sandbox_exec", json!({"sandbox_id": id, "cmd": ["true"]}));
    world.refused("run_b", "sandbox_fs_read", json!({"sandbox_id": id, "path": "note"}));

    assert_eq!(world.record(&id).state, State::Hibernated);
}

#[test]
fn a_recorded_sleep_survives_a_restart_and_an_awake_sandbox_does_not() {
    let world = World::new();
    let (asleep, awake) = (sleeper(&world), {
        let opened = world.ok("run_a", "sandbox_open", json!({"on_idle": "hibernate"}));
        opened["sandbox_id"].as_str().expect("an id").parse::<SandboxId>().expect("an id of ours")
    });
    world.backend.kill_guest(&asleep);
    world.engine.upkeep().sweep().expect("a sweep");
    let engine = world.after_reboot();

    let input = json!({"sandbox_id": asleep, "path": "note"});
    let read = engine.call(caller("run_a"), "sandbox_fs_read", input).expect("it wakes");
    let lost = engine.call(caller("run_a"), "sandbox_exec", json!({"sandbox_id": awake, "cmd": ["true"]}));

    assert_eq!(read["contents"], "kept");
    assert!(lost.is_err());
    assert_eq!(world.record(&awake).state, State::Lost);
}

fn on_idle(world: &World, input: serde_json::Value) -> serde_json::Value {
    let opened = world.ok("run_a", "sandbox_open", input);
    world.ok("run_a", "sandbox_get", json!({"sandbox_id": opened["sandbox_id"]}))["on_idle"].clone()
}

#[test]
fn a_sandbox_that_stays_sleeps_unless_its_files_cannot_be_kept_or_its_caller_says_otherwise() {
    let world = World::new();

    assert_eq!(on_idle(&world, json!({})), "hibernate");
    assert_eq!(on_idle(&world, json!({"storage": "disk"})), "hibernate");
    assert_eq!(on_idle(&world, json!({"storage": "memory"})), "destroy");
    assert_eq!(on_idle(&world, json!({"on_idle": "destroy"})), "destroy");
    assert_eq!(on_idle(&World::bare(), json!({})), "destroy", "this backend keeps no files");
}

#[test]
fn the_default_is_no_wish_that_a_key_could_contradict() {
    let world = World::new();
    let kept = world.ok("run_a", "sandbox_open", json!({"session_key": "k", "on_idle": "destroy"}));

    let found = world.ok("run_a", "sandbox_open", json!({"session_key": "k"}));
    let other = world.refused("run_a", "sandbox_open", json!({"session_key": "k", "on_idle": "hibernate"}));

    assert_eq!(found["sandbox_id"], kept["sandbox_id"]);
    assert_eq!((other.kind, &other.details["fields"]), (Kind::Conflict, &json!(["on_idle"])));
}

#[test]
fn a_backend_that_keeps_no_files_refuses_to_hibernate() {
    let world = World::bare();

    let refused = world.refused("run_a", "sandbox_open", json!({"on_idle": "hibernate"}));

    assert_eq!((refused.kind, &refused.details["field"]), (Kind::Unsupported, &json!("on_idle")));
    assert_eq!(world.backend.creates(), 0);
}

#[test]
fn a_connection_that_a_program_keeps_wakes_its_sandbox() {
    let world = World::new();
    let id = sleeper(&world);
    let mut attached = world.engine.execs().attach(caller("run_a"), &id).expect("it connects");
    for swept in [false, true] {
        world.backend.kill_guest(&id);
        if swept {
            world.engine.upkeep().sweep().expect("a sweep");
        }
        // The end of a guest shows at the first use of the connection.
        let mut read = || {
            let mut contents = Vec::new();
            attached.read_file(b"note", &mut contents).map(|_| contents)
        };
        let read = read().or_else(|_| read());

        assert_eq!(read.expect("it wakes"), b"kept", "{swept}");
    }
    assert_eq!(world.record(&id).life, 3);
}

#[test]
fn a_guest_that_only_does_not_answer_is_not_put_to_rest() {
    let world = World::new();
    let id = sleeper(&world);
    world.backend.fail_at(Step::Connect, Fault::Fail);

    world.refused("run_a", "sandbox_exec", json!({"sandbox_id": id, "cmd": ["true"]}));

    assert_eq!((world.record(&id).state, world.record(&id).life), (State::Ready, 1));
    assert_eq!(note(&world, &id), "kept");
}

#[test]
fn a_sleeper_changes_hands_before_its_sleep_is_recorded() {
    let world = World::new();
    let id = sleeper(&world);
    world.backend.kill_guest(&id);

    world.ok("run_a", "sandbox_transfer", json!({"sandbox_id": id, "to": "run_b"}));
    world.refused("run_a", "sandbox_exec", json!({"sandbox_id": id, "cmd": ["true"]}));
    world.ok("run_b", "sandbox_exec", json!({"sandbox_id": id, "cmd": ["true"]}));

    assert_eq!(world.record(&id).life, 2);
}

#[test]
fn how_large_a_sleeper_is_and_when_it_ends_is_told_everywhere_and_its_end_once_a_day_before() {
    let (world, day) = (World::new(), Duration::from_secs(24 * 3600));
    let id = sleeper(&world);
    world.backend.kill_guest(&id);
    world.engine.upkeep().sweep().expect("a sweep");
    let get = || world.ok("run_a", "sandbox_get", json!({"sandbox_id": id}));
    let events = || {
        let listed =
            world.ok("run_a", "event_list", json!({"sandbox_id": id, "kinds": ["expiring", "expired"]}));
        listed["events"].as_array().expect("a list").clone()
    };
    let kept = get()["kept"].clone();
    let sleep_for = |days: u32| {
        world.clock.advance(days * day);
        world.engine.upkeep().sweep().expect("a sweep")
    };

    let listed = world.ok("run_a", "sandbox_list", json!({}))["sandboxes"][0]["kept"].clone();
    let early = sleep_for(28);
    let (told, again) = (sleep_for(1), sleep_for(0));
    let left = world.engine.upkeep().orphans().expect("a look").orphans;
    let kept_then = get()["kept"].clone();

    assert_eq!(kept["expires_at"].as_u64(), kept["since"].as_u64().map(|since| since + 30 * 86_400_000));
    assert!(kept["bytes"].is_u64(), "{kept}");
    assert_eq!((&listed, &kept_then), (&kept, &kept), "it was not used");
    assert_eq!([early.announced, told.announced, again.announced], [0, 1, 0]);
    assert_eq!(left, []);
    let [expiring] = &events()[..] else { panic!("{:?}", events()) };
    assert_eq!(
        (&expiring["kind"], &expiring["details"]["expires_at"]),
        (&json!("expiring"), &kept["expires_at"])
    );
    sleep_for(2);
    assert_eq!(world.record(&id).state, State::Expired);
    assert_eq!(events().last().expect("an event")["kind"], "expired");
}
