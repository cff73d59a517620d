//! A clock that somebody sets destroys nothing and makes nobody forget; time that passes does.

use std::time::Duration;

use coracle_core::{Clock, Record, State, Store, Timestamp};
use coracle_engine::janitor::{RETENTION, Report};
use coracle_testing::sample;
use serde_json::json;

use crate::world::World;

const YEARS: Duration = Duration::from_secs(10 * 365 * 24 * 3600);
const DAYS: Duration = Duration::from_secs(8 * 24 * 3600);

/// Sets the clock to every odd time, with a sweep at each, and back to what it was.
fn jump(world: &World) -> Vec<Report> {
    let now = world.clock.now();
    let forth = |by: Duration| Timestamp::from_millis(now.as_millis() + by.as_millis() as u64);
    let back = |by: Duration| Timestamp::from_millis(now.as_millis() - by.as_millis() as u64);
    let times = [forth(DAYS), forth(YEARS), now, back(DAYS), back(YEARS), forth(YEARS), back(YEARS), now];
    times
        .into_iter()
        .map(|time| {
            world.clock.set(time);
            world.engine.upkeep().sweep().expect("a sweep")
        })
        .collect()
}

#[test]
fn what_is_quarantined_or_lost_stays_and_goes_in_its_time() {
    let world = World::new();
    let (aside, lost) = (sample::sandbox(), world.open_without_sleep("run_a", Some("key")));
    world.backend.plant(&aside);
    world.backend.kill_guest(&lost);
    world.engine.upkeep().sweep().expect("a sweep");

    let jumped = jump(&world);

    assert!(jumped.iter().all(|report| *report == Report::default()), "{jumped:?}");
    assert_eq!((world.record(&aside).state, world.record(&lost).state), (State::Quarantined, State::Lost));
    world.clock.advance(Duration::from_secs(25 * 3600));
    assert_eq!(world.engine.upkeep().sweep().expect("a sweep"), Report { discarded: 2, ..Report::default() });
}

#[test]
fn a_clock_that_is_set_back_keeps_nothing_for_ever() {
    let world = World::new();
    let aside = sample::sandbox();
    world.clock.set(Timestamp::from_millis(world.clock.now().as_millis() + YEARS.as_millis() as u64));
    world.backend.plant(&aside);
    world.engine.upkeep().sweep().expect("a sweep");

    world.clock.set(Timestamp::from_millis(world.clock.now().as_millis() - YEARS.as_millis() as u64));
    world.engine.upkeep().sweep().expect("a sweep");
    world.clock.advance(Duration::from_secs(25 * 3600));

    assert_eq!(world.engine.upkeep().sweep().expect("a sweep"), Report { discarded: 1, ..Report::default() });
}

#[test]
fn records_events_and_output_are_not_forgotten() {
    let world = World::new();
    let id = world.open("run_a");
    let ran = world.exec("run_a", &id, &["echo", "out"]);
    world.ok("run_a", "sandbox_close", json!({ "sandbox_id": id }));
    let gone = json!({ "sandbox_id": id, "exec_id": ran["exec_id"] });
    let events = || world.ok("run_a", "event_list", json!({}))["events"].as_array().map(Vec::len);
    let before = events();

    let jumped = jump(&world);

    assert!(jumped.iter().all(|report| *report == Report::default()), "{jumped:?}");
    assert_eq!(events(), before);
    assert_eq!(world.ok("run_a", "sandbox_exec_read", gone)["chunks"][0]["text"], "out\n");
    world.clock.advance(RETENTION + Duration::from_secs(1));
    assert_eq!(world.engine.upkeep().sweep().expect("a sweep").forgotten, 1);
}

#[test]
fn what_happens_after_a_jump_is_told() {
    let world = World::new();
    let id = world.open("run_a");
    let now = world.clock.now();
    // All of the past is forgotten while the clock is ahead, so that what is left is stamped with years to come.
    world.clock.set(Timestamp::from_millis(now.as_millis() + YEARS.as_millis() as u64));
    world.clock.advance(DAYS);
    world.exec("run_a", &id, &["echo", "a"]);
    world.engine.upkeep().sweep().expect("a sweep");
    world.clock.set(now);

    let ran = world.exec("run_a", &id, &["echo", "b"]);

    let told = world.ok("run_a", "event_list", json!({ "kinds": ["exec_ended"] }));
    let told: Vec<_> = told["events"].as_array().expect("a list").iter().map(|one| &one["exec_id"]).collect();
    assert!(told.contains(&&ran["exec_id"]), "{told:?}");
}

#[test]
fn a_key_leads_to_the_same_sandbox_whatever_the_clock_says() {
    let world = World::new();
    let first = world.open_key("run_a", Some("key"));
    let now = world.clock.now();

    for time in [0, now.as_millis() + YEARS.as_millis() as u64, now.as_millis()] {
        world.clock.set(Timestamp::from_millis(time));
        world.engine.upkeep().sweep().expect("a sweep");
        assert_eq!(world.open_key("run_a", Some("key")), first);
    }
}

#[test]
fn a_home_of_an_older_coracle_forgets_nothing_at_once() {
    let world = World::new();
    let old = Record { state: State::Quarantined, updated_at: Timestamp::from_millis(1), ..sample::record() };
    let ended = Record { state: State::Destroyed, updated_at: Timestamp::from_millis(1), ..sample::record() };
    world.store.plant(old.clone());
    world.store.plant(ended.clone());

    assert_eq!(world.engine.upkeep().sweep().expect("a sweep"), Report::default());

    world.clock.advance(RETENTION);
    let report = world.engine.upkeep().sweep().expect("a sweep");
    assert_eq!((report.discarded, report.forgotten), (1, 1));
    assert_eq!(Store::find(&world.store, &ended.id).expect("the store answers"), None);
}
