//! Pausing and resuming, as the engine sees it.

use coracle_core::{Kind, State};
use serde_json::json;

use crate::world::World;

#[test]
fn a_paused_sandbox_can_be_looked_at_but_not_changed() {
    let world = World::new();
    let id = world.open("run_a");
    world.exec("run_a", &id, &["echo", "hi"]);
    world.ok("run_a", "sandbox_fs_write", json!({"sandbox_id": id, "path": "f", "contents": "x"}));

    world.ok("run_a", "sandbox_pause", json!({"sandbox_id": id}));

    assert_eq!(world.record(&id).state, State::Paused);
    for (name, input) in [
        ("sandbox_exec", json!({"sandbox_id": id, "cmd": ["true"]})),
        ("sandbox_fs_write", json!({"sandbox_id": id, "path": "f", "contents": "y"})),
        ("sandbox_fs_delete", json!({"sandbox_id": id, "path": "f"})),
    ] {
        let refused = world.refused("run_a", name, input);
        assert_eq!(refused.kind, Kind::Conflict, "{name}");
        assert!(refused.to_json().to_string().contains("resume"), "{name}: the hint says what to do");
    }
    let read = world.ok("run_a", "sandbox_fs_read", json!({"sandbox_id": id, "path": "f"}));
    assert_eq!(read["contents"], "x");
    let shown = world.ok("run_a", "sandbox_get", json!({"sandbox_id": id}));
    assert_eq!((&shown["state"], &shown["guest"]["paused"]), (&json!("paused"), &json!(true)));
}

#[test]
fn pausing_and_resuming_twice_is_fine() {
    let world = World::new();
    let id = world.open("run_a");

    for (verb, state) in [
        ("sandbox_resume", "ready"),
        ("sandbox_pause", "paused"),
        ("sandbox_pause", "paused"),
        ("sandbox_resume", "ready"),
        ("sandbox_resume", "ready"),
    ] {
        assert_eq!(world.ok("run_a", verb, json!({"sandbox_id": id}))["state"], state);
    }

    assert_eq!(world.exec("run_a", &id, &["echo", "on"])["stdout"], "on\n");
}

#[test]
fn only_the_owner_pauses_and_resumes() {
    let world = World::new();
    let id = world.open("run_a");

    for verb in ["sandbox_pause", "sandbox_resume"] {
        assert_eq!(world.refused("run_b", verb, json!({"sandbox_id": id})).kind, Kind::NotOwner);
    }

    assert_eq!(world.record(&id).state, State::Ready);
}

#[test]
fn a_paused_sandbox_changes_hands_and_closes() {
    let world = World::new();
    let id = world.open("run_a");
    world.ok("run_a", "sandbox_pause", json!({"sandbox_id": id}));

    world.ok("run_a", "sandbox_transfer", json!({"sandbox_id": id, "to": "run_b"}));
    assert_eq!(world.refused("run_a", "sandbox_resume", json!({"sandbox_id": id})).kind, Kind::LentOut);
    world.ok("run_b", "sandbox_resume", json!({"sandbox_id": id}));
    world.ok("run_b", "sandbox_pause", json!({"sandbox_id": id}));
    world.ok("run_b", "sandbox_close", json!({"sandbox_id": id}));

    assert_eq!(world.record(&id).state, State::Destroyed);
}
