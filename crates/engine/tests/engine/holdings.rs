//! What outlives a tenant's sandboxes is bounded in bytes, whichever way it is made.

use coracle_core::image::Config;
use coracle_core::tenant::{TenantPolicy, Tenants};
use coracle_core::{Error, Kind, Policy};
use coracle_engine::Caller;
use coracle_testing::sample;
use serde_json::{Value, json};

use crate::world::{World, caller};

fn of(tenant: &str) -> Caller {
    Caller { tenant: Some(sample::tenant(tenant)), ..caller("run_a") }
}

/// Returns a world in which each tenant may keep so many bytes.
fn bounded(storage: u64) -> World {
    let others = TenantPolicy { storage, ..TenantPolicy::default() };
    World::ruled_by(Policy { tenants: Tenants { others, ..Tenants::default() }, ..Policy::default() })
}

fn call(world: &World, who: &Caller, name: &str, input: Value) -> Result<Value, Error> {
    world.engine.call(who, name, input)
}

fn ok(world: &World, who: &Caller, name: &str, input: Value) -> Value {
    call(world, who, name, input).unwrap_or_else(|error| panic!("`{name}` failed: {}", error.to_json()))
}

#[track_caller]
fn too_much(world: &World, who: &Caller, name: &str, input: Value) {
    let error = call(world, who, name, input).expect_err(name);
    assert_eq!((error.kind, &error.details["limit"]), (Kind::LimitExceeded, &json!("tenants.storage")));
}

fn with_volume(name: &str) -> Value {
    json!({"mounts": [{"source": name, "target": "/data"}], "limits": {"workspace_mb": 1024}})
}

fn images(world: &World) -> Vec<String> {
    let listed = world.ok("run_a", "image_list", json!({}));
    let listed = listed["images"].as_array().expect("a list").clone();
    listed.iter().map(|image| image["reference"].as_str().expect("text").to_owned()).collect()
}

/// A volume is made empty and filled later, when nobody asks any more.
#[test]
fn volumes_count_with_what_they_may_hold() {
    let world = bounded(2 << 30);
    for name in ["a", "b"] {
        ok(&world, &of("mine"), "sandbox_open", with_volume(name));
    }

    too_much(&world, &of("mine"), "sandbox_open", with_volume("c"));

    ok(&world, &of("mine"), "sandbox_open", with_volume("a"));
    ok(&world, &of("mine"), "sandbox_open", json!({}));
    ok(&world, &of("theirs"), "sandbox_open", with_volume("c"));
    ok(&world, &caller("run_a"), "sandbox_open", with_volume("c"));
}

#[test]
fn an_image_that_is_too_much_is_not_kept() {
    let world = bounded(5_000);
    let images_here = world.backend.image_shelf();
    images_here.publish("one", &["aaa"], Config::default());
    images_here.publish("two", &["bbb"], Config::default());
    ok(&world, &of("mine"), "image_pull", json!({"reference": "one"}));

    too_much(&world, &of("mine"), "image_pull", json!({"reference": "two"}));
    too_much(&world, &of("mine"), "sandbox_open", json!({"image": "two"}));

    assert_eq!(images(&world), ["docker.io/library/one:latest"]);
    ok(&world, &of("mine"), "image_remove", json!({"name": "one"}));
    ok(&world, &of("mine"), "sandbox_open", json!({"image": "two"}));
}

/// A reference may be longer than the name of a file.
#[test]
fn an_image_with_a_long_name_counts_like_any_other() {
    let world = bounded(5_000);
    let long = |name: &str| format!("{name}{}:{}", "/path".repeat(40), "t".repeat(100));
    for name in ["one", "two"] {
        world.backend.image_shelf().publish(&long(name), &["aaa"], Config::default());
    }
    ok(&world, &of("mine"), "image_pull", json!({"reference": long("one")}));

    too_much(&world, &of("mine"), "image_pull", json!({"reference": long("two")}));
    too_much(&world, &of("mine"), "image_pull", json!({"reference": long("two")}));

    assert_eq!(images(&world).len(), 1);
}

/// Each is charged as if it were alone, so that nobody learns what others have, or pays when they let go.
#[test]
fn an_image_of_several_tenants_counts_for_each_and_goes_with_the_last() {
    let world = bounded(5_000);
    let images_here = world.backend.image_shelf();
    images_here.publish("one", &["aaa"], Config::default());
    images_here.publish("two", &["bbb"], Config::default());
    for tenant in ["mine", "theirs"] {
        ok(&world, &of(tenant), "image_pull", json!({"reference": "one"}));
        too_much(&world, &of(tenant), "image_pull", json!({"reference": "two"}));
    }

    ok(&world, &of("mine"), "image_remove", json!({"name": "one"}));
    let after_one = images(&world);
    ok(&world, &of("theirs"), "image_remove", json!({"name": "one"}));

    assert_eq!(after_one, ["docker.io/library/one:latest"]);
    assert!(images(&world).is_empty());
}

#[test]
fn what_the_operator_brought_counts_for_nobody_and_stays() {
    let world = bounded(5_000);
    let images_here = world.backend.image_shelf();
    images_here.publish("one", &["aaa"], Config::default());
    images_here.publish("two", &["bbb"], Config::default());
    world.ok("run_a", "image_pull", json!({"reference": "one"}));
    ok(&world, &of("mine"), "sandbox_open", json!({"image": "one"}));
    ok(&world, &of("mine"), "image_pull", json!({"reference": "two"}));

    // Wanted by the operator after the tenant brought it.
    world.ok("run_a", "image_pull", json!({"reference": "two"}));
    ok(&world, &of("mine"), "image_remove", json!({"name": "two"}));

    let denied = call(&world, &of("mine"), "image_remove", json!({"name": "one"})).expect_err("it is shared");
    assert_eq!(denied.kind, Kind::Denied);
    assert_eq!(images(&world).len(), 2);
}

/// Of a name that leads elsewhere each time, what it led to before is not kept.
#[test]
fn a_moving_name_leaves_nothing_behind() {
    let world = bounded(5_000);
    let images_here = world.backend.image_shelf();
    for layer in ["aaa", "bbb", "ccc"] {
        images_here.publish("moving", &[layer], Config::default());
        ok(&world, &of("mine"), "image_pull", json!({"reference": "moving"}));
    }

    let collected = world.engine.upkeep().collect();

    assert_eq!((collected.layers, images(&world).len()), (0, 1));
}

#[test]
fn a_snapshot_that_is_too_much_is_not_kept() {
    let world = bounded(70_000);
    let opened = ok(&world, &of("mine"), "sandbox_open", json!({}));
    let snapshot = json!({"sandbox_id": opened["sandbox_id"]});
    for _ in 0..2 {
        ok(&world, &of("mine"), "sandbox_snapshot", snapshot.clone());
    }

    too_much(&world, &of("mine"), "sandbox_snapshot", snapshot);

    assert_eq!(images(&world).len(), 2);
}
