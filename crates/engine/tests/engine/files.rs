//! Files: written, read, listed, moved, deleted, and the kernel's refusals by name.

use coracle_core::Kind;
use serde_json::{Value, json};

use crate::world::World;

#[test]
fn what_is_written_is_read() {
    let world = World::new();
    let id = world.open("run_a");

    let written = world.ok(
        "run_a",
        "sandbox_fs_write",
        json!({"sandbox_id": id, "path": "a/b.txt", "contents": "hi", "mode": "0600"}),
    );
    let read = world.ok("run_a", "sandbox_fs_read", json!({"sandbox_id": id, "path": "a/b.txt"}));
    let stat = world.ok("run_a", "sandbox_fs_stat", json!({"sandbox_id": id, "path": "a/b.txt"}));

    assert_eq!(written, json!({"ok": true, "path": "/workspace/a/b.txt"}));
    assert_eq!(read, json!({"contents": "hi", "truncated": false, "size_bytes": 2}));
    assert_eq!(stat["type"], "file");
    assert_eq!(stat["mode"], "0600");
    assert_eq!(stat["size"], 2);
}

#[test]
fn a_file_of_many_pieces_arrives_whole() {
    let world = World::new();
    let id = world.open("run_a");
    let contents = "0123456789".repeat(300_000);

    world.ok("run_a", "sandbox_fs_write", json!({"sandbox_id": id, "path": "big", "contents": contents}));
    let read = world.ok(
        "run_a",
        "sandbox_fs_read",
        json!({"sandbox_id": id, "path": "big", "max_bytes": 4_000_000}),
    );

    assert_eq!(read["contents"].as_str().map(str::len), Some(3_000_000));
    assert_eq!(read["truncated"], false);
}

#[test]
fn a_long_file_is_cut_between_characters() {
    let world = World::new();
    let id = world.open("run_a");
    world.ok("run_a", "sandbox_fs_write", json!({"sandbox_id": id, "path": "f", "contents": "aéé"}));

    let read = world.ok("run_a", "sandbox_fs_read", json!({"sandbox_id": id, "path": "f", "max_bytes": 4}));

    assert_eq!(read, json!({"contents": "aé", "truncated": true, "size_bytes": 5}));
}

#[test]
fn what_is_no_text_comes_as_base64() {
    let world = World::new();
    let id = world.open("run_a");
    world.ok("run_a", "sandbox_fs_write", json!({"sandbox_id": id, "path": "f", "contents_b64": "/wA="}));

    let read = world.ok("run_a", "sandbox_fs_read", json!({"sandbox_id": id, "path": "f"}));

    assert_eq!(read["contents_b64"], "/wA=");
    assert_eq!(read.get("contents"), None);
}

#[test]
fn an_empty_file_is_a_file() {
    let world = World::new();
    let id = world.open("run_a");
    world.ok("run_a", "sandbox_fs_write", json!({"sandbox_id": id, "path": "f", "contents": ""}));

    let read = world.ok("run_a", "sandbox_fs_read", json!({"sandbox_id": id, "path": "f"}));

    assert_eq!(read, json!({"contents": "", "truncated": false, "size_bytes": 0}));
}

#[test]
fn directories_are_listed_moved_and_deleted() {
    let world = World::new();
    let id = world.open("run_a");
    world.ok("run_a", "sandbox_fs_write", json!({"sandbox_id": id, "path": "d/f", "contents": "x"}));

    let top = world.ok("run_a", "sandbox_fs_list", json!({"sandbox_id": id}));
    let all = world.ok("run_a", "sandbox_fs_list", json!({"sandbox_id": id, "path": ".", "recursive": true}));
    let shallow = world.refused("run_a", "sandbox_fs_delete", json!({"sandbox_id": id, "path": "d"}));
    world.ok("run_a", "sandbox_fs_move", json!({"sandbox_id": id, "from": "d/f", "to": "g"}));
    let deleted =
        world.ok("run_a", "sandbox_fs_delete", json!({"sandbox_id": id, "path": "d", "recursive": true}));

    assert_eq!(top["entries"][0]["type"], "dir");
    assert_eq!(top["truncated"], false);
    assert_eq!(top["entries"].as_array().map(Vec::len), Some(1));
    assert_eq!(all["entries"].as_array().map(Vec::len), Some(2));
    assert_eq!(shallow.kind, Kind::Invalid);
    assert_eq!(shallow.details["errno"], "EISDIR");
    assert_eq!(deleted, json!({"ok": true, "deleted": "d"}));
    assert_eq!(world.exec("run_a", &id, &["cat", "/workspace/g"])["stdout"], "x");
}

#[test]
fn refusals_carry_the_kernels_name() {
    let world = World::new();
    let id = world.open("run_a");
    world.ok("run_a", "sandbox_fs_write", json!({"sandbox_id": id, "path": "f", "contents": "x"}));
    let errno = |operation: &str, input: Value| {
        let error = world.refused("run_a", operation, input);
        (error.kind, error.details["errno"].as_str().map(str::to_owned))
    };

    let missing = errno("sandbox_fs_read", json!({"sandbox_id": id, "path": "nowhere"}));
    let taken =
        errno("sandbox_fs_write", json!({"sandbox_id": id, "path": "f", "contents": "", "overwrite": false}));
    let outside =
        errno("sandbox_fs_write", json!({"sandbox_id": id, "path": "../../etc/passwd", "contents": ""}));
    let through = errno("sandbox_fs_write", json!({"sandbox_id": id, "path": "f/g", "contents": ""}));

    assert_eq!(missing, (Kind::NotFound, Some("ENOENT".to_owned())));
    assert_eq!(taken, (Kind::Conflict, Some("EEXIST".to_owned())));
    assert_eq!(outside, (Kind::Invalid, Some("EXDEV".to_owned())));
    assert_eq!(through, (Kind::Invalid, Some("ENOTDIR".to_owned())));
}
