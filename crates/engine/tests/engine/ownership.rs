//! Ownership: lent, given back, refused to everyone else, fenced in the guest.

use std::time::Duration;

use coracle_core::{Backend, Epoch, Kind, State};
use coracle_engine::ExecRequest;
use coracle_engine::guest::{Failure, Guest};
use coracle_testing::{Fault, Step};
use coracle_wire::FaultCode;
use serde_json::{Value, json};

use crate::world::{World, argv, caller, caller_at};

#[test]
fn lent_and_given_back_with_a_new_epoch_each_time() {
    let world = World::new();
    let id = world.open("run_a");

    let lent = world.ok("run_a", "sandbox_transfer", json!({"sandbox_id": id, "to": "run_b"}));
    let parent = world.refused("run_a", "sandbox_exec", json!({"sandbox_id": id, "cmd": ["true"]}));
    let stranger = world.refused("run_c", "sandbox_fs_list", json!({"sandbox_id": id}));
    let child = world.exec("run_b", &id, &["echo", "mine"]);
    let back = world.ok("run_b", "sandbox_release", json!({"sandbox_id": id}));
    let again = world.exec("run_a", &id, &["echo", "again"]);

    assert_eq!(lent, json!({"sandbox_id": id, "owner": "run_b", "epoch": 2}));
    assert_eq!(parent.kind, Kind::LentOut);
    assert_eq!(parent.details["owner"], "run_b");
    assert_eq!(stranger.kind, Kind::NotOwner);
    assert_eq!(child["stdout"], "mine\n");
    assert_eq!(back, json!({"sandbox_id": id, "owner": "run_a", "epoch": 3}));
    assert_eq!(again["stdout"], "again\n");
}

#[test]
fn a_claim_from_an_earlier_tenure_is_stale() {
    let world = World::new();
    let id = world.open("run_a");
    world.ok("run_a", "sandbox_transfer", json!({"sandbox_id": id, "to": "run_b"}));
    world.ok("run_b", "sandbox_release", json!({"sandbox_id": id}));

    let request = ExecRequest { argv: argv(&["true"]), ..ExecRequest::default() };
    let error = world.engine.execs().run(caller_at("run_a", 1), &id, &request).expect_err("epoch 1 is over");

    assert_eq!(error.kind, Kind::StaleEpoch);
    assert_eq!(error.details["current_epoch"], 3);
    assert!(world.engine.execs().run(caller_at("run_a", 3), &id, &request).is_ok());
}

#[test]
fn the_guest_refuses_an_old_epoch_that_got_past_the_store() {
    let world = World::new();
    let id = world.open("run_a");
    let record = world.record(&id);
    let placement = record.placement.expect("a ready sandbox has a placement");
    let stream = world.backend.connect(&id, &placement).expect("the guest is there");
    let mut zombie = Guest::connect(stream, &record.secret, Epoch(1)).expect("the guest knows the secret");
    world.ok("run_a", "sandbox_transfer", json!({"sandbox_id": id, "to": "run_b"}));

    let refused = zombie.delete(b"/workspace", true);

    assert!(
        matches!(&refused, Err(Failure::Fault(fault)) if fault.code == FaultCode::StaleEpoch { current: 2 }),
        "{refused:?}"
    );
    let shown: coracle_core::Error = refused.expect_err("it was refused").into();
    assert_eq!(shown.kind, Kind::StaleEpoch);
    assert_eq!(shown.details["current_epoch"], 2);
}

#[test]
fn running_execs_are_a_conflict_unless_it_is_said_what_becomes_of_them() {
    let world = World::new();
    let id = world.open("run_a");
    let exec = world.start_sleeper("run_a", &id);

    let refused = world.refused("run_a", "sandbox_transfer", json!({"sandbox_id": id, "to": "run_b"}));
    let kept =
        world.ok("run_a", "sandbox_transfer", json!({"sandbox_id": id, "to": "run_b", "running": "keep"}));
    let seen = world.ok("run_b", "sandbox_exec_read", json!({"sandbox_id": id, "exec_id": exec}));
    world.ok("run_b", "sandbox_transfer", json!({"sandbox_id": id, "to": "run_c", "running": "kill"}));
    let killed = world.ok("run_c", "sandbox_exec_wait", json!({"sandbox_id": id, "exec_id": exec}));

    assert_eq!(refused.kind, Kind::Conflict);
    assert_eq!(refused.details["running"], 1);
    assert_eq!(kept["epoch"], 2, "a refused transfer burns no epoch");
    assert_eq!(seen["status"], "running");
    assert_eq!(killed["outcome"], json!({"kind": "stopped"}));
}

#[test]
fn claiming_is_idempotent_for_the_owner_and_closed_to_others() {
    let world = World::new();
    let id = world.open("run_a");

    let owner = world.ok("run_a", "sandbox_claim", json!({"sandbox_id": id}));
    let other = world.refused("run_b", "sandbox_claim", json!({"sandbox_id": id}));
    world.ok("run_a", "sandbox_release", json!({"sandbox_id": id}));
    let free = world.refused("run_b", "sandbox_exec", json!({"sandbox_id": id, "cmd": ["true"]}));
    let taken = world.ok("run_b", "sandbox_claim", json!({"sandbox_id": id}));

    assert_eq!(owner["epoch"], 1);
    assert_eq!(other.kind, Kind::NotOwner);
    assert_eq!(free.kind, Kind::NotOwner);
    assert_eq!(taken, json!({"sandbox_id": id, "owner": "run_b", "epoch": 3}));
}

#[test]
fn a_transfer_stands_though_the_guest_is_dead() {
    let world = World::new();
    let id = world.open_without_sleep("run_a", None);
    world.backend.kill_guest(&id);

    let keep = json!({"sandbox_id": id, "to": "run_b", "running": "keep"});
    let reply = world.ok("run_a", "sandbox_transfer", keep);

    assert_eq!(reply["owner"], "run_b");
    assert!(reply["note"].as_str().is_some_and(|note| note.contains("lost")), "{reply}");
    assert_eq!(world.record(&id).state, State::Lost);
}

#[test]
fn what_is_being_removed_is_not_handed_over() {
    let world = World::new();
    let id = world.open("run_a");
    world.backend.fail_at(Step::Destroy, Fault::Fail);
    world.refused("run_a", "sandbox_close", json!({"sandbox_id": id}));

    let lent = world.refused("run_a", "sandbox_transfer", json!({"sandbox_id": id, "to": "run_b"}));
    let back = world.ok("run_a", "sandbox_release", json!({"sandbox_id": id}));

    assert_eq!(lent.kind, Kind::Conflict);
    assert_eq!(back["owner"], Value::Null);
}

#[test]
fn transfers_to_a_holder_are_refused() {
    let world = World::new();
    let id = world.open("run_a");

    let itself = world.refused("run_a", "sandbox_transfer", json!({"sandbox_id": id, "to": "run_a"}));

    assert_eq!(itself.kind, Kind::Conflict);
    assert_eq!(world.record(&id).lease.epoch(), Epoch(1));
}

#[test]
fn only_one_of_many_claimers_wins() {
    let world = World::new();
    let id = world.open("run_a");
    world.ok("run_a", "sandbox_release", json!({"sandbox_id": id}));

    let wins = std::thread::scope(|scope| {
        let claim = |name: String| world.call(&name, "sandbox_claim", json!({"sandbox_id": id})).is_ok();
        let claimers: Vec<_> = (0..10).map(|n| scope.spawn(move || claim(format!("run_{n}")))).collect();
        claimers.into_iter().map(|claimer| claimer.join().expect("no panic")).filter(|won| *won).count()
    });

    assert_eq!(wins, 1);
}

#[test]
fn closing_needs_the_ownership() {
    let world = World::new();
    let id = world.open("run_a");

    let stranger = world.refused("run_b", "sandbox_close", json!({"sandbox_id": id}));
    let zombie = caller("run_a").under(Some(Epoch(9)));
    let stale =
        world.engine.call(&zombie, "sandbox_close", json!({"sandbox_id": id})).expect_err("a wrong epoch");
    let closed = world.ok("run_a", "sandbox_close", json!({"sandbox_id": id, "delete_workspace": true}));
    let again = world.ok("run_a", "sandbox_close", json!({"sandbox_id": id}));
    let used = world.refused("run_a", "sandbox_exec", json!({"sandbox_id": id, "cmd": ["true"]}));
    let unknown = world.refused("run_a", "sandbox_close", json!({"sandbox_id": "sbx_nobody"}));

    assert_eq!(stranger.kind, Kind::NotOwner);
    assert_eq!(stale.kind, Kind::StaleEpoch);
    assert_eq!([closed, again], [json!({"ok": true}), json!({"ok": true})]);
    assert_eq!(used.kind, Kind::NotFound);
    assert_eq!(unknown.kind, Kind::NotFound);
    assert!(world.backend.survey().expect("a survey").is_empty());
}

#[test]
fn anyone_may_close_what_is_nobodys_or_lost() {
    let world = World::new();
    let (free, lost) = (world.open_without_sleep("run_a", None), world.open_without_sleep("run_a", None));
    world.ok("run_a", "sandbox_release", json!({"sandbox_id": free}));
    world.backend.kill_guest(&lost);
    world.refused("run_a", "sandbox_exec", json!({"sandbox_id": lost, "cmd": ["true"]}));

    world.ok("run_b", "sandbox_close", json!({"sandbox_id": free}));
    world.ok("run_b", "sandbox_close", json!({"sandbox_id": lost}));

    assert_eq!(world.record(&free).state, State::Destroyed);
    assert_eq!(world.record(&lost).state, State::Destroyed);
}

#[test]
fn anyone_sees_the_record_and_only_the_owner_sees_inside() {
    let world = World::new();
    let id = world.open("run_a");
    world.exec("run_a", &id, &["echo", "hi"]);

    let owner = world.ok("run_a", "sandbox_get", json!({"sandbox_id": id}));
    let other = world.ok("run_b", "sandbox_get", json!({"sandbox_id": id}));
    let list = world.ok("run_b", "sandbox_list", json!({}));

    assert_eq!(owner["execs"][0]["cmd"], json!(["echo", "hi"]));
    assert_eq!(owner["guest"]["running"], 0);
    assert_eq!(owner["holders"], json!(["run_a"]));
    assert_eq!(owner["profile"]["walls"][0]["name"], "cpu");
    assert_eq!(owner["limits"]["memory_mb"], 4096);
    assert_eq!(other["execs"], Value::Null);
    assert_eq!(other["owner"], "run_a");
    assert_eq!(list["sandboxes"][0]["sandbox_id"], json!(id));
    let shown = owner.to_string();
    assert!(!shown.contains("secret"), "{shown}");
}

#[test]
fn ended_sandboxes_are_listed_only_on_request() {
    let world = World::new();
    let id = world.open("run_a");
    world.ok("run_a", "sandbox_close", json!({"sandbox_id": id}));

    let live = world.ok("run_a", "sandbox_list", json!({}));
    let all = world.ok("run_a", "sandbox_list", json!({"all": true}));

    assert_eq!(live["sandboxes"], json!([]));
    assert_eq!(all["sandboxes"][0]["state"], "destroyed");
}

#[test]
fn of_many_sandboxes_the_newest_are_listed_and_it_is_said_that_there_are_more() {
    let world = World::new();
    let open = |_| {
        world.clock.advance(Duration::from_secs(1));
        world.open("run_a")
    };
    let ids: Vec<_> = (0..3).map(open).collect();

    let some = world.ok("run_a", "sandbox_list", json!({"max": 2}));
    let all = world.ok("run_a", "sandbox_list", json!({"max": 3}));

    let listed = |reply: &Value| -> Vec<_> {
        reply["sandboxes"].as_array().expect("a list").iter().map(|one| one["sandbox_id"].clone()).collect()
    };
    let mut expected: Vec<_> = ids.iter().map(|id| json!(id)).collect();
    assert_eq!(listed(&all).len(), 3);
    assert_eq!((all["more"].clone(), some["more"].clone()), (Value::Null, json!(true)));
    assert_eq!(listed(&some), expected.split_off(1));
    for max in [0, 10_001] {
        assert_eq!(world.refused("run_a", "sandbox_list", json!({"max": max})).kind, Kind::Invalid);
    }
}
