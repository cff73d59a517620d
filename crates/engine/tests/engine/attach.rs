//! A standing connection: many operations, each admitted anew.

use coracle_core::{Kind, State};
use coracle_engine::{Depth, ExecRequest, NewFile, Stdin};
use serde_json::json;

use crate::world::{World, argv, caller};

fn say(word: &str) -> ExecRequest {
    ExecRequest { argv: argv(&["echo", word]), ..ExecRequest::default() }
}

#[test]
fn many_operations_over_one_connection() {
    let world = World::new();
    let id = world.open("run_a");
    let mut attached = world.engine.execs().attach(caller("run_a"), &id).expect("it is ours");
    let file = NewFile::at(&b"f"[..]);

    let first = attached.exec(&say("one")).expect("an exec");
    let missing =
        attached.exec(&ExecRequest { argv: argv(&["nothing"]), ..say("") }).expect_err("no such program");
    let fed = ExecRequest { argv: argv(&["cat"]), stdin: Stdin::Bytes(b"two".to_vec()), ..say("") };
    let second = attached.exec(&fed).expect("an exec after a failure");
    let path = attached.write_file(&file, &mut &b"three"[..]).expect("a file");
    let mut read = Vec::new();
    attached.read_file(b"f", &mut read).expect("the file");
    let listed = attached.list(b".", Depth::One).expect("a listing");
    attached.delete(b"f", Depth::One).expect("the file goes");

    assert_eq!(first.stdout, b"one\n");
    assert_eq!(missing.kind, Kind::ExecutionFailed);
    assert_eq!(second.stdout, b"two");
    assert_eq!(path, b"/workspace/f");
    assert_eq!(read, b"three");
    assert_eq!(listed.entries.len(), 1);
    assert_eq!(attached.stat(b"f").expect_err("it is gone").kind, Kind::NotFound);
}

#[test]
fn lending_the_sandbox_ends_the_attachment_until_it_is_back() {
    let world = World::new();
    let id = world.open("run_a");
    let mut attached = world.engine.execs().attach(caller("run_a"), &id).expect("it is ours");

    world.ok("run_a", "sandbox_transfer", json!({"sandbox_id": id, "to": "run_b"}));
    let lent = attached.exec(&say("x")).expect_err("it is lent out");
    world.ok("run_b", "sandbox_release", json!({"sandbox_id": id}));
    let back = attached.exec(&say("back")).expect("it is ours again");

    assert_eq!(lent.kind, Kind::LentOut);
    assert_eq!(back.stdout, b"back\n");
}

#[test]
fn a_dead_guest_is_noticed() {
    let world = World::new();
    let id = world.open_without_sleep("run_a", None);
    let mut attached = world.engine.execs().attach(caller("run_a"), &id).expect("it is ours");
    world.backend.kill_guest(&id);

    let first = attached.exec(&say("x")).expect_err("the guest is dead");
    let second = attached.exec(&say("x")).expect_err("the guest is still dead");

    assert_eq!([first.kind, second.kind], [Kind::NotAvailable; 2]);
    assert_eq!(world.record(&id).state, State::Lost);
}
