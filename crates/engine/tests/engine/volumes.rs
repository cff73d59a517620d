//! Volumes: made by mounting, kept by whoever uses them, deleted only when told.

use coracle_core::mount::MountPolicy;
use coracle_core::{Kind, Policy};
use serde_json::{Value, json};

use crate::world::World;

fn open_on(world: &World, source: &str) -> Value {
    let mounts = json!([{"source": source, "target": "/workspace"}]);
    world.ok("run_a", "sandbox_open", json!({ "mounts": mounts }))
}

fn volumes(world: &World) -> Value {
    world.ok("run_a", "volume_list", json!({}))["volumes"].clone()
}

fn close(world: &World, opened: &Value, delete_workspace: bool) -> Value {
    let input = json!({"sandbox_id": opened["sandbox_id"], "delete_workspace": delete_workspace});
    world.ok("run_a", "sandbox_close", input)
}

#[test]
fn a_volume_is_made_by_mounting_it_and_outlives_the_sandbox() {
    let world = World::new();

    let opened = open_on(&world, "project");
    let while_open = volumes(&world);
    close(&world, &opened, false);

    assert_eq!(opened["mounts"], json!([{"source": "project", "target": "/workspace", "access": "rw"}]));
    assert_eq!(while_open[0]["used_by"], json!([opened["sandbox_id"]]));
    assert_eq!(
        (&volumes(&world)[0]["name"], &volumes(&world)[0]["used_by"]),
        (&json!("project"), &json!([]))
    );
}

#[test]
fn a_volume_in_use_is_not_removed() {
    let world = World::new();
    let opened = open_on(&world, "project");

    let error = world.refused("run_a", "volume_remove", json!({"name": "project"}));
    close(&world, &opened, false);
    world.ok("run_a", "volume_remove", json!({"name": "project"}));

    assert_eq!(error.kind, Kind::Conflict);
    assert_eq!(error.details["used_by"], json!([opened["sandbox_id"]]));
    assert_eq!(volumes(&world), json!([]));
    assert_eq!(world.refused("run_a", "volume_remove", json!({"name": "project"})).kind, Kind::NotFound);
}

#[test]
fn a_workspace_on_a_volume_is_deleted_with_the_sandbox_only_when_told() {
    let world = World::new();
    let opened = open_on(&world, "project");

    let closed = close(&world, &opened, true);

    assert_eq!(closed, json!({"ok": true, "deleted_volume": "project"}));
    assert_eq!(volumes(&world), json!([]));
}

#[test]
fn a_workspace_others_use_stays_and_the_close_stands() {
    let world = World::new();
    let (mine, other) = (open_on(&world, "project"), open_on(&world, "project"));

    let closed = close(&world, &mine, true);

    assert_eq!(closed["ok"], true);
    assert!(closed["note"].as_str().is_some_and(|note| note.contains("`project` stays")), "{closed}");
    assert_eq!(volumes(&world)[0]["used_by"], json!([other["sandbox_id"]]));
    // Closing again, when the other is gone, finishes it.
    close(&world, &other, false);
    assert_eq!(close(&world, &mine, true)["deleted_volume"], "project");
    assert_eq!(close(&world, &mine, true), json!({"ok": true}));
}

#[test]
fn only_the_volume_of_the_workspace_is_deleted() {
    let world = World::new();
    let mounts = json!([{"source": "cache", "target": "/cache"}]);
    let opened = world.ok("run_a", "sandbox_open", json!({ "mounts": mounts }));

    let closed = close(&world, &opened, true);

    assert_eq!(closed, json!({"ok": true}));
    assert_eq!(volumes(&world)[0]["name"], "cache");
}

#[test]
fn a_directory_of_the_machine_is_never_deleted() {
    let world = World::new();
    let place = tempfile::tempdir().expect("a directory");
    let opened = open_on(&world, place.path().to_str().expect("UTF-8"));

    let closed = close(&world, &opened, true);

    assert!(closed["note"].as_str().is_some_and(|note| note.contains("stays")), "{closed}");
    assert!(place.path().is_dir());
}

#[test]
fn only_directories_the_operator_allows_are_mounted() {
    let mounts = MountPolicy { allow: Some(vec!["/srv".to_owned()]) };
    let world = World::ruled_by(Policy { mounts, ..Policy::default() });
    let open = |source: &str| json!({"mounts": [{"source": source, "target": "/x"}]});

    for source in ["/etc", "/", "/srvx", "/srv/../etc"] {
        assert_eq!(world.refused("run_a", "sandbox_open", open(source)).kind, Kind::Invalid, "{source}");
    }
    world.ok("run_a", "sandbox_open", open("/srv/project"));
    // Volumes are coracle's own and not a matter of the list.
    world.ok("run_a", "sandbox_open", open("cache"));
}

#[test]
fn a_backend_without_volumes_says_so() {
    let world = World::bare();

    assert_eq!(world.refused("run_a", "volume_list", json!({})).kind, Kind::Unsupported);
    assert_eq!(world.refused("run_a", "volume_remove", json!({"name": "x"})).kind, Kind::Unsupported);
}

#[test]
fn a_name_that_could_be_a_path_is_no_volume() {
    let world = World::new();

    for name in ["", "../x", "a/b", "-rf", "."] {
        assert_eq!(
            world.refused("run_a", "volume_remove", json!({ "name": name })).kind,
            Kind::Invalid,
            "{name}"
        );
    }
}
