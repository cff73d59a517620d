//! The same key, another wish: what was written and differs is a conflict, unless the sandbox is to be replaced.

use std::sync::Barrier;

use coracle_core::image::Config;
use coracle_core::{Kind, State};
use serde_json::{Value, json};

use crate::world::{World, caller};

const SECRET: &str = "hunter2";

/// What a sandbox is opened with; every test writes some of it again, or something else.
fn wish() -> Value {
    json!({
        "session_key": "k", "image": "docker.io/library/python:3.12", "runtime": "python",
        "env": {"TOKEN": SECRET, "PLAIN": "1"}, "workdir": "/w", "storage": "disk", "network": "allow=a.test,b.test",
        "limits": {"memory_mb": 512, "pids": 64}, "ttl": "10m", "privileges": "install", "labels": {"team": "x"},
        "mounts": [{"source": "data", "target": "/data"}], "require": ["seccomp"], "allow_missing": ["cpu"],
    })
}

/// Returns a world whose registry has that image.
fn world() -> World {
    let world = World::new();
    world.backend.image_shelf().publish("python:3.12", &["a"], Config::default());
    world
}

fn opened(world: &World, input: Value) -> Value {
    world.ok("run_a", "sandbox_open", input)
}

#[test]
fn what_is_written_again_or_not_at_all_finds_the_sandbox() {
    let world = world();
    let first = opened(&world, wish());

    let again = opened(&world, wish());
    let nothing = opened(&world, json!({"session_key": "k"}));
    let said_otherwise = opened(
        &world,
        json!({
            "session_key": "k", "image": "python:3.12", "network": "allow=b.test,a.test", "ttl": "600s",
            "env": {"PLAIN": "1"}, "backend": "auto",
        }),
    );

    let digest = first["image_digest"].as_str().expect("a digest");
    let by_digest = opened(&world, json!({"session_key": "k", "image": format!("python@{digest}")}));

    for found in [again, nothing, said_otherwise, by_digest] {
        assert_eq!((&found["created"], &found["sandbox_id"]), (&json!(false), &first["sandbox_id"]));
    }
}

#[test]
fn each_written_field_that_differs_is_named_and_no_other() {
    let world = world();
    opened(&world, wish());

    for (field, written) in [
        ("image", json!({"image": "docker.io/library/python:3.13"})),
        ("runtime", json!({"runtime": "node"})),
        ("env.TOKEN", json!({"env": {"TOKEN": "other", "PLAIN": "1"}})),
        ("env.NEW", json!({"env": {"NEW": "1"}})),
        ("workdir", json!({"workdir": "/elsewhere"})),
        ("storage", json!({"storage": "memory"})),
        ("network", json!({"network": "open"})),
        ("network", json!({"network": "allow=a.test"})),
        ("limits.memory_mb", json!({"limits": {"memory_mb": 256, "pids": 64}})),
        ("limits.pids", json!({"limits": {"pids": 63}})),
        ("limits.output_bytes", json!({"limits": {"output_bytes": 4096}})),
        ("limits.timeout_seconds", json!({"limits": {"timeout_seconds": 30}})),
        ("user", json!({"user": "1000"})),
        ("ttl", json!({"ttl": "30s"})),
        ("privileges", json!({"privileges": "minimal"})),
        ("labels.team", json!({"labels": {"team": "y"}})),
        ("mounts./data", json!({"mounts": [{"source": "data", "target": "/data", "access": "ro"}]})),
        ("mounts./more", json!({"mounts": [{"source": "data", "target": "/more"}]})),
        ("allow_missing", json!({"allow_missing": ["memory"]})),
        ("allow_sockets", json!({"allow_sockets": true})),
    ] {
        let mut input = written.clone();
        input["session_key"] = json!("k");

        let refused = world.refused("run_a", "sandbox_open", input);

        assert_eq!(refused.kind, Kind::Conflict, "{written}");
        assert_eq!(refused.details["fields"], json!([field]), "{written}");
        assert!(refused.message.contains(&format!("`{field}`")), "{}", refused.message);
        let difference = &refused.details["differences"][0];
        let secret = field.starts_with("env.");
        assert_eq!(difference.get("written").is_none() && difference.get("sandbox").is_none(), secret);
        assert!(!refused.to_json().to_string().contains(SECRET), "{}", refused.to_json());
    }
}

#[test]
fn root_is_root_by_whatever_name() {
    let world = World::new();
    let first = opened(&world, json!({"session_key": "k"}));

    for name in ["root", "0", "0:0"] {
        let again = opened(&world, json!({"session_key": "k", "user": name}));
        assert_eq!(again["sandbox_id"], first["sandbox_id"], "{name}");
    }
}

#[test]
fn limits_that_were_lifted_are_compared_with_those_there_are() {
    let world = World::new();
    opened(&world, json!({"session_key": "k", "limits": {"memory_mb": 512}}));

    let refused = world.refused("run_a", "sandbox_open", json!({"session_key": "k", "limits": "unlimited"}));

    let first = &refused.details["differences"][1];
    assert_eq!(first, &json!({"field": "limits.memory_mb", "written": "unlimited", "sandbox": 512}));
}

#[test]
fn a_narrowed_network_is_no_other_wish() {
    let world = World::new();
    let first = opened(&world, json!({"session_key": "k", "network": "allow=a.test,b.test"}));
    let id = first["sandbox_id"].clone();
    world.ok("run_a", "sandbox_network", json!({"sandbox_id": id, "network": "allow=a.test"}));

    for network in ["allow=a.test,b.test", "allow=a.test"] {
        let found = opened(&world, json!({"session_key": "k", "network": network}));
        assert_eq!(found["sandbox_id"], id, "{network}");
    }
    assert_eq!(
        world.refused("run_a", "sandbox_open", json!({"session_key": "k", "network": "none"})).kind,
        Kind::Conflict
    );
}

#[test]
fn a_conflict_takes_nothing_and_tells_strangers_nothing() {
    let world = world();
    let first = opened(&world, wish());
    let other = json!({"session_key": "k", "network": "open"});

    assert_eq!(world.refused("run_b", "sandbox_open", other.clone()).kind, Kind::NotOwner);
    world.ok("run_a", "sandbox_release", json!({"sandbox_id": first["sandbox_id"]}));
    assert_eq!(world.refused("run_b", "sandbox_open", other).kind, Kind::Conflict);

    let id = first["sandbox_id"].as_str().expect("an id").parse().expect("valid");
    assert_eq!(world.record(&id).lease.owner(), None, "it was not claimed");
}

#[test]
fn a_sandbox_that_is_gone_differs_from_nothing() {
    let world = World::new();
    let first = world.open_without_sleep("run_a", Some("k"));
    world.backend.kill_guest(&first);

    let second = opened(&world, json!({"session_key": "k", "network": "open"}));

    assert_eq!(second["created"], true);
}

#[test]
fn replacing_closes_what_is_there_and_opens_a_new_one() {
    let world = World::new();
    let first = world.open_key("run_a", Some("k"));

    let second = opened(&world, json!({"session_key": "k", "replace": true, "network": "open"}));
    let nothing_there = opened(&world, json!({"session_key": "free", "replace": true}));

    assert_eq!(world.record(&first).state, State::Destroyed);
    assert_eq!((&second["created"], &nothing_there["created"]), (&json!(true), &json!(true)));
    assert_eq!(world.refused("run_a", "sandbox_open", json!({"replace": true})).kind, Kind::Invalid);
}

#[test]
fn what_cannot_be_opened_or_is_anothers_replaces_nothing() {
    let world = World::new();
    let first = world.open_key("run_a", Some("k"));
    let replaced = |input: Value| {
        let mut whole = json!({"session_key": "k", "replace": true});
        whole.as_object_mut().expect("an object").extend(input.as_object().expect("an object").clone());
        whole
    };

    assert_eq!(world.refused("run_b", "sandbox_open", replaced(json!({}))).kind, Kind::NotOwner);
    let unknown = replaced(json!({"backend": "nowhere"}));
    assert_eq!(world.refused("run_a", "sandbox_open", unknown).kind, Kind::NotAvailable);
    let missing = replaced(json!({"image": "missing.test/x"}));
    assert_eq!(world.refused("run_a", "sandbox_open", missing).kind, Kind::ImageNotFound);

    assert_eq!(world.record(&first).state, State::Ready);
}

#[test]
fn two_who_replace_at_once_end_with_one_sandbox() {
    let world = World::new();
    for round in 0..20 {
        let key = format!("k{round}");
        let first = world.open_key("run_a", Some(&key));
        let start = Barrier::new(4);

        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    start.wait();
                    let input = json!({"session_key": key, "replace": true, "network": "open"});
                    world.engine.call(caller("run_a"), "sandbox_open", input).expect("it ends with one");
                });
            }
        });

        let listed = world.ok("run_a", "sandbox_list", json!({}));
        let live = listed["sandboxes"].as_array().expect("a list");
        let live: Vec<_> = live.iter().filter(|sandbox| sandbox["session_key"] == key.as_str()).collect();
        assert_eq!(live.len(), 1, "{live:?}");
        assert_ne!(live[0]["sandbox_id"], first.as_str());
    }
}
