//! Sweeping: what is left after deaths, reboots and restored databases.

use std::time::Duration;

use coracle_core::backend::GuestEnd;
use coracle_core::{Backend, Cancel, Record, State, Store, Timestamp};
use coracle_engine::ExecRequest;
use coracle_engine::janitor::{RETENTION, Report};
use coracle_testing::backend::crashes;
use coracle_testing::{Fault, Step, sample};
use serde_json::json;

use crate::world::{World, argv, caller};

#[test]
fn an_orderly_home_needs_nothing() {
    let world = World::new();
    world.open("run_a");

    assert_eq!(world.engine.upkeep().sweep().expect("a sweep"), Report::default());
    assert!(world.engine.upkeep().orphans().expect("a look").orphans.is_empty());
}

#[test]
fn deaths_at_every_step_end_with_nothing_left() {
    let steps = [Step::Prepare, Step::Create, Step::DirectoryMade, Step::GuestStarted];
    for step in steps {
        let world = World::new();
        world.backend.fail_at(step, Fault::Crash);
        assert!(crashes(|| drop(world.call("run_a", "sandbox_open", json!({})))));

        assert_eq!(world.engine.upkeep().orphans().expect("a look").orphans.len(), 1, "{step:?}");
        assert_eq!(
            world.engine.upkeep().sweep().expect("a sweep"),
            Report { failed: 1, ..Report::default() },
            "{step:?}"
        );
        assert!(world.engine.upkeep().orphans().expect("a look").orphans.is_empty(), "{step:?}");
        assert!(world.backend.survey().expect("a survey").is_empty(), "{step:?}");
    }
}

#[test]
fn a_removal_that_was_interrupted_is_finished() {
    for step in [Step::Destroy, Step::GuestKilled] {
        let world = World::new();
        let id = world.open("run_a");
        world.backend.fail_at(step, Fault::Crash);
        assert!(crashes(|| drop(world.call("run_a", "sandbox_close", json!({"sandbox_id": id})))));

        assert_eq!(
            world.engine.upkeep().sweep().expect("a sweep"),
            Report { finished: 1, ..Report::default() },
            "{step:?}"
        );
        assert_eq!(world.record(&id).state, State::Destroyed);
        assert!(world.backend.survey().expect("a survey").is_empty());
    }
}

#[test]
fn a_removal_that_failed_is_tried_again() {
    let world = World::new();
    let id = world.open("run_a");
    world.backend.fail_at(Step::GuestKilled, Fault::Fail);

    world.refused("run_a", "sandbox_close", json!({"sandbox_id": id}));
    let between = world.record(&id);
    let report = world.engine.upkeep().sweep().expect("a sweep");

    assert_eq!(between.state, State::DestroyFailed);
    assert!(between.reason.is_some());
    assert_eq!(report.finished, 1);
    assert_eq!(world.record(&id).state, State::Destroyed);
}

#[test]
fn what_did_not_survive_a_reboot_is_lost_and_swept() {
    let world = World::new();
    let id = world.open("run_a");
    let engine = world.after_reboot();

    let report = engine.upkeep().sweep().expect("a sweep");

    assert_eq!(report, Report { lost: 1, ..Report::default() });
    assert_eq!(world.record(&id).state, State::Lost);
    assert!(world.backend.survey().expect("a survey").is_empty());
}

#[test]
fn what_was_idle_has_expired_and_is_listed_for_an_hour() {
    let world = World::new();
    let (idle, untied) = (world.open_without_sleep("run_a", Some("k")), world.open("run_a"));
    world.backend.end_guest(&idle, GuestEnd::Idle { ended: world.record(&idle).created_at });
    world.backend.end_guest(&untied, GuestEnd::Untied);
    let listed = |all: bool| {
        let reply = world.ok("run_a", "sandbox_list", json!({"all": all}));
        let found = reply["sandboxes"]
            .as_array()
            .expect("a list")
            .iter()
            .find(|one| one["sandbox_id"] == json!(idle));
        found.map(|one| (one["state"].clone(), one["idle_since"].is_u64()))
    };

    let report = world.engine.upkeep().sweep().expect("a sweep");

    assert_eq!(report, Report { expired: 1, finished: 1, ..Report::default() });
    assert_eq!((world.record(&idle).state, world.record(&untied).state), (State::Expired, State::Destroyed));
    assert!(world.backend.survey().expect("a survey").is_empty());
    assert_eq!(listed(false), Some((json!("expired"), true)));
    world.clock.advance(Duration::from_secs(3601));
    assert_eq!(listed(false), None);
    assert_eq!(listed(true), Some((json!("expired"), true)));
}

#[test]
fn a_reboot_of_this_machine_loses_nothing_on_another() {
    let world = World::far();
    let id = world.open("run_a");
    let engine = world.after_reboot();

    let report = engine.upkeep().sweep().expect("a sweep");
    let request = ExecRequest { argv: argv(&["sh", "-c", "echo works"]), ..ExecRequest::default() };
    let ran = engine.execs().run(caller("run_a"), &id, &request).expect("its guest is where it was");

    assert_eq!(report, Report::default());
    assert_eq!(ran.stdout, b"works\n");
    assert_eq!(world.record(&id).state, State::Ready);
}

#[test]
fn a_guest_on_another_machine_that_is_gone_is_lost() {
    let world = World::far();
    let id = world.open_without_sleep("run_a", None);
    let engine = world.after_reboot();
    world.backend.kill_guest(&id);

    let report = engine.upkeep().sweep().expect("a sweep");

    assert_eq!(report, Report { lost: 1, ..Report::default() });
    assert_eq!(world.record(&id).state, State::Lost);
}

#[test]
fn the_sandbox_of_another_instance_is_left_alone() {
    let world = World::new();
    let neighbour = world.backend.beside(sample::instance());
    neighbour.plant(&sample::sandbox());

    assert_eq!(world.engine.upkeep().sweep().expect("a sweep"), Report::default());
    assert_eq!(neighbour.survey().expect("a survey").len(), 1);
}

#[test]
fn an_object_without_a_record_is_quarantined_then_discarded() {
    let world = World::new();
    let id = sample::sandbox();
    world.backend.plant(&id);

    let found = world.engine.upkeep().sweep().expect("a sweep");
    let kept = world.engine.upkeep().sweep().expect("a sweep");
    world.clock.advance(Duration::from_secs(25 * 3600));
    let discarded = world.engine.upkeep().sweep().expect("a sweep");

    assert_eq!(found, Report { quarantined: 1, ..Report::default() });
    assert_eq!(kept, Report::default());
    assert_eq!(discarded, Report { discarded: 1, ..Report::default() });
    assert_eq!(world.record(&id).state, State::Destroyed);
}

#[test]
fn whoever_is_at_work_is_left_alone() {
    let world = World::new();
    let record = sample::record();
    world.store.plant(record.clone());
    let at_work = world.store.work_on(&record.id, &Cancel::default()).expect("nobody works on it");

    let orphans = world.engine.upkeep().orphans().expect("a look").orphans;
    let busy = world.engine.upkeep().sweep().expect("a sweep");
    drop(at_work);
    let free = world.engine.upkeep().sweep().expect("a sweep");

    assert!(orphans.is_empty());
    assert_eq!(busy, Report::default());
    assert_eq!(free.failed, 1);
}

#[test]
fn a_silent_backend_is_no_reason_to_give_up_sandboxes() {
    let world = World::new();
    let id = world.open("run_a");
    world.backend.fail_at(Step::Survey, Fault::Fail);

    let report = world.engine.upkeep().sweep().expect("a sweep");

    assert_eq!(report.lost, 0);
    assert_eq!(report.trouble.len(), 1);
    assert_eq!(world.record(&id).state, State::Ready);
}

#[test]
fn ended_records_are_forgotten_after_a_while() {
    let world = World::new();
    let id = world.open("run_a");
    world.ok("run_a", "sandbox_close", json!({"sandbox_id": id}));

    let early = world.engine.upkeep().sweep().expect("a sweep");
    world.clock.advance(RETENTION + Duration::from_secs(1));
    let late = world.engine.upkeep().sweep().expect("a sweep");

    assert_eq!((early.forgotten, late.forgotten), (0, 1));
    assert_eq!(world.store.find(&id).expect("the store answers"), None);
}

#[test]
fn of_too_many_ended_sandboxes_the_oldest_of_that_tenant_are_forgotten() {
    let world = World::new();
    let ended = |tenant: &str, millis| {
        let observed_at =
            Timestamp::from_millis(world.engine.records().observed().expect("counts").as_millis() + millis);
        let tenant = Some(sample::tenant(tenant));
        let record = Record { tenant, observed_at, state: State::Destroyed, ..sample::record() };
        world.store.plant(record.clone());
        record.id
    };
    let quiet = ended("quiet", 0);
    let busy: Vec<_> = (0..10_002).map(|millis| ended("busy", millis)).collect();

    let report = world.engine.upkeep().sweep().expect("a sweep");

    assert_eq!(report, Report { forgotten: 2, ..Report::default() });
    let known = |id| Store::find(&world.store, id).expect("the store answers").is_some();
    assert_eq!([&busy[0], &busy[1], &busy[2], &quiet].map(known), [false, false, true, true]);
}
