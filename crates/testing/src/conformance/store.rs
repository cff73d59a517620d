//! The contract of every store.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use serde_json::json;

use crate::sample;
use coracle_core::backend::{Placement, Profile, Wall};
use coracle_core::cancel::Cancel;
use coracle_core::clock::Timestamp;
use coracle_core::error::{Error, Kind, Result};
use coracle_core::ids::{SandboxId, SessionKey};
use coracle_core::lease::{Claim, Event};
use coracle_core::lifecycle::State;
use coracle_core::record::Record;
use coracle_core::store::{Durability, Opened, Population, Quota, Store, Which};

/// A place where records are kept. Each opening stands for another process.
pub trait Home: Sync {
    fn open(&self) -> Box<dyn Store>;
}

/// Runs the suite against the [`Home`] that `$make()` returns, a fresh one for each test.
#[macro_export]
macro_rules! store_conformance {
    ($make:expr) => {
        $crate::conformance_clauses!(
            $make,
            contract,
            $crate::conformance::store,
            [
                an_opened_record_is_found_again_with_every_field,
                a_record_nobody_opened_is_not_found,
                of_many_openers_of_one_key_exactly_one_creates,
                records_without_a_key_never_meet,
                an_id_is_used_once,
                a_key_is_free_again_once_its_sandbox_has_ended,
                a_lost_sandbox_keeps_its_key,
                an_update_cannot_take_the_key_of_another,
                an_update_of_an_unknown_id_is_not_found,
                a_decision_that_fails_changes_nothing,
                a_decision_that_panics_changes_nothing,
                updates_at_the_same_time_do_not_overwrite_each_other,
                a_change_of_owner_is_seen_by_everyone,
                a_listing_is_oldest_first_and_leaves_ended_ones_out_on_request,
                a_tenants_newest_are_its_own_without_spares,
                the_key_of_what_has_expired_is_free,
                what_has_ended_keeps_no_environment,
                only_ended_records_from_before_are_forgotten,
                of_each_tenant_the_newest_ended_records_are_kept,
                backends_of_what_has_ended_are_known_for_a_while,
                each_tenant_has_keys_of_its_own,
                what_takes_room_is_counted_for_its_tenant,
                a_sleeper_takes_no_place_and_takes_one_again_when_it_wakes,
                of_many_who_want_a_tenants_last_places_no_more_get_one,
                what_a_key_finds_takes_no_place,
                a_change_takes_no_place_a_tenant_does_not_have,
                the_instance_stays_the_same,
                work_on_a_sandbox_excludes_others_until_it_is_dropped,
                work_on_one_sandbox_leaves_others_free,
                a_cancelled_call_does_not_wait_for_the_work_of_another,
                workers_are_never_two_at_once,
            ]
        );
    };
}

pub fn an_opened_record_is_found_again_with_every_field(home: &impl Home) {
    let wall = Wall {
        name: "memory".into(),
        enforced: false,
        how: "no cgroup".into(),
        hint: Some("mount it".into()),
    };
    let record = Record {
        key: Some(sample::key("build of föhn / 1")),
        placement: Some(Placement(json!({"pid": 17, "path": "/run/x"}))),
        profile: Some(Profile { walls: vec![wall] }),
        idle_since: Some(Timestamp::from_millis(17)),
        reason: Some("why \"not\" \n".into()),
        ..sample::record()
    };

    home.open().open(record.clone()).expect("opens");

    let store = home.open();
    assert_eq!(store.find(&record.id).expect("finds"), Some(record.clone()));
    let key = record.key.as_ref().expect("it has a key");
    assert_eq!(store.find_key(None, key).expect("finds"), Some(record.clone()));
}

pub fn a_record_nobody_opened_is_not_found(home: &impl Home) {
    let store = home.open();

    assert_eq!(store.find(&sample::sandbox()).expect("looks"), None);
    assert_eq!(store.find_key(None, &sample::key("nothing")).expect("looks"), None);
    assert_eq!(store.list(Which::All).expect("lists"), []);
}

pub fn of_many_openers_of_one_key_exactly_one_creates(home: &impl Home) {
    let open = || home.open().open(keyed("shared")).expect("opens");
    let opened: Vec<_> = thread::scope(|scope| {
        let openers: Vec<_> = (0..20).map(|_| scope.spawn(open)).collect();
        openers.into_iter().map(|opener| opener.join().expect("an opener does not panic")).collect()
    });

    let created: Vec<_> =
        opened.iter().filter(|opened| matches!(opened, Opened::Created(_))).map(id_of).collect();
    assert_eq!(created.len(), 1);
    assert!(opened.iter().all(|opened| id_of(opened) == created[0]), "everyone has the same sandbox");
    assert_eq!(home.open().list(Which::All).expect("lists").len(), 1);
}

pub fn records_without_a_key_never_meet(home: &impl Home) {
    let store = home.open();

    let first = store.open(sample::record()).expect("opens");
    let second = store.open(sample::record()).expect("opens");

    assert!(matches!((first, second), (Opened::Created(_), Opened::Created(_))));
}

pub fn an_id_is_used_once(home: &impl Home) {
    let record = sample::record();
    home.open().open(record.clone()).expect("opens");

    let again = home.open().open(record);

    assert_kind(again, Kind::Conflict);
}

pub fn a_key_is_free_again_once_its_sandbox_has_ended(home: &impl Home) {
    let store = home.open();
    for ending in [&[State::Failed][..], &[State::Destroying, State::Destroyed]] {
        let opened = store.open(keyed("again")).expect("opens");
        assert!(matches!(opened, Opened::Created(_)), "the key is free before {ending:?}");

        ending.iter().for_each(|state| become_state(&*store, &id_of(&opened), *state));

        assert_eq!(store.find_key(None, &sample::key("again")).expect("looks"), None);
    }
}

pub fn a_lost_sandbox_keeps_its_key(home: &impl Home) {
    let store = home.open();
    let first = store.open(keyed("kept")).expect("opens");
    [State::Ready, State::Lost].iter().for_each(|state| become_state(&*store, &id_of(&first), *state));

    let second = store.open(keyed("kept")).expect("opens");

    assert!(
        matches!(second, Opened::Existing(record) if record.id == id_of(&first) && record.state == State::Lost)
    );
}

pub fn an_update_cannot_take_the_key_of_another(home: &impl Home) {
    let store = home.open();
    store.open(keyed("taken")).expect("opens");
    let other = store.open(sample::record()).expect("opens");

    let taken = store.update(&id_of(&other), Durability::Process, &mut |record| {
        Ok(Record { key: Some(sample::key("taken")), ..record })
    });

    assert_kind(taken, Kind::Conflict);
    assert_eq!(store.find(&id_of(&other)).expect("finds").expect("it is there").key, None);
}

pub fn an_update_of_an_unknown_id_is_not_found(home: &impl Home) {
    let updated = home
        .open()
        .update(&sample::sandbox(), Durability::Process, &mut |_| panic!("there is nothing to decide"));

    assert_kind(updated, Kind::NotFound);
}

pub fn a_decision_that_fails_changes_nothing(home: &impl Home) {
    let store = home.open();
    let record = sample::record();
    store.open(record.clone()).expect("opens");

    let refused = store.update(&record.id, Durability::Power, &mut |_| Err(Error::new(Kind::LentOut, "no")));

    assert_kind(refused, Kind::LentOut);
    assert_eq!(store.find(&record.id).expect("finds"), Some(record));
}

pub fn a_decision_that_panics_changes_nothing(home: &impl Home) {
    let store = home.open();
    let record = sample::record();
    store.open(record.clone()).expect("opens");
    let panicking = &mut |_| std::panic::resume_unwind(Box::new("on purpose"));

    let caught = catch_unwind(AssertUnwindSafe(|| store.update(&record.id, Durability::Power, panicking)));

    assert!(caught.is_err());
    assert_eq!(store.find(&record.id).expect("finds"), Some(record.clone()));
    become_state(&*store, &record.id, State::Ready);
}

pub fn updates_at_the_same_time_do_not_overwrite_each_other(home: &impl Home) {
    let record = sample::record();
    home.open().open(record.clone()).expect("opens");
    let tick = |record: Record| {
        Ok(Record { updated_at: Timestamp::from_millis(record.updated_at.as_millis() + 1), ..record })
    };
    let tick_often = || {
        let store = home.open();
        (0..25).for_each(|_| {
            drop(store.update(&record.id, Durability::Process, &mut { tick }).expect("updates"))
        });
    };

    thread::scope(|scope| (0..4).for_each(|_| drop(scope.spawn(tick_often))));

    let after = home.open().find(&record.id).expect("finds").expect("it is there");
    assert_eq!(after.updated_at.as_millis() - record.updated_at.as_millis(), 100);
}

pub fn a_change_of_owner_is_seen_by_everyone(home: &impl Home) {
    let (mine, theirs) = (home.open(), home.open());
    let record = sample::record();
    mine.open(record.clone()).expect("opens");
    let claim = Claim { run: sample::run("run_sample"), epoch: None };
    let transfer = Event::Transfer { to: sample::run("run_child") };

    let lent = mine.update(&record.id, Durability::Power, &mut |record| {
        let lease = record.lease.step(&claim, &transfer).map_err(|denied| denied.into_error(&record.id))?;
        Ok(Record { lease, ..record })
    });

    let lease = lent.expect("the owner may lend").lease;
    assert_eq!(lease.owner(), Some(&sample::run("run_child")));
    assert_eq!(theirs.find(&record.id).expect("finds").expect("it is there").lease, lease);
}

pub fn a_listing_is_oldest_first_and_leaves_ended_ones_out_on_request(home: &impl Home) {
    let store = home.open();
    for millis in [3, 1, 2] {
        let created_at = Timestamp::from_millis(millis);
        let opened =
            store.open(Record { created_at, updated_at: created_at, ..sample::record() }).expect("opens");
        if millis == 2 {
            become_state(&*store, &id_of(&opened), State::Failed);
        }
    }

    let times = |which| -> Vec<_> {
        store.list(which).expect("lists").iter().map(|record| record.created_at.as_millis()).collect()
    };

    assert_eq!(times(Which::All), [1, 2, 3]);
    assert_eq!(times(Which::Live), [1, 3]);
}

pub fn only_ended_records_from_before_are_forgotten(home: &impl Home) {
    let store = home.open();
    let at = |millis| Record { observed_at: Timestamp::from_millis(millis), ..sample::record() };
    let (old, new, live) = (at(10), at(20), at(10));
    for record in [&old, &new, &live] {
        store.open(record.clone()).expect("opens");
    }
    become_state(&*store, &old.id, State::Failed);
    become_state(&*store, &new.id, State::Failed);

    let forgotten = store.forget(Timestamp::from_millis(20), 100).expect("forgets");

    assert_eq!(forgotten, 1);
    assert_eq!(store.find(&old.id).expect("looks"), None);
    assert!(store.find(&new.id).expect("looks").is_some());
    assert!(store.find(&live.id).expect("looks").is_some());
}

pub fn of_each_tenant_the_newest_ended_records_are_kept(home: &impl Home) {
    let store = home.open();
    let end = |tenant: Option<&str>, millis| {
        let observed_at = Timestamp::from_millis(millis);
        let record = Record { tenant: tenant.map(sample::tenant), observed_at, ..sample::record() };
        store.open(record.clone()).expect("opens");
        become_state(&*store, &record.id, State::Failed);
        record.id
    };
    let busy: Vec<_> = [30, 10, 40, 20].map(|millis| end(Some("busy"), millis)).into();
    let (quiet, own) = (end(Some("quiet"), 1), end(None, 1));
    let live = Record { tenant: Some(sample::tenant("busy")), ..sample::record() };
    store.open(live.clone()).expect("opens");

    let forgotten = store.forget(Timestamp::from_millis(0), 2).expect("forgets");

    let known = |id: &SandboxId| store.find(id).expect("looks").is_some();
    assert_eq!(forgotten, 2);
    assert_eq!(busy.iter().map(known).collect::<Vec<_>>(), [true, false, true, false]);
    assert!(known(&quiet) && known(&own) && known(&live.id));
}

pub fn a_tenants_newest_are_its_own_without_spares(home: &impl Home) {
    let store = home.open();
    let open = |tenant: Option<&str>, millis, states: &[State]| {
        let created_at = Timestamp::from_millis(millis);
        let mut record = Record { tenant: tenant.map(sample::tenant), created_at, ..sample::record() };
        record.spec.env.insert("NAME".into(), "value".into());
        store.open(record.clone()).expect("opens");
        states.iter().for_each(|state| become_state(&*store, &record.id, *state));
    };
    open(Some("mine"), 3, &[]);
    open(Some("mine"), 1, &[State::Ready]);
    open(Some("mine"), 2, &[State::Failed]);
    open(Some("other"), 4, &[]);
    open(None, 5, &[State::Spare]);
    open(Some("mine"), 6, &[State::Ready, State::Expired]);

    let newest = |tenant: Option<&str>, which, max| -> Vec<_> {
        let records = store.newest(tenant.map(sample::tenant).as_ref(), which, max).expect("lists");
        assert!(records.iter().all(|record| record.spec.env.is_empty()), "{records:?}");
        records.iter().map(|record| record.created_at.as_millis()).collect()
    };

    assert_eq!(newest(Some("mine"), Which::All, 10), [6, 3, 2, 1]);
    assert_eq!(newest(Some("mine"), Which::All, 2), [6, 3]);
    assert_eq!(newest(Some("mine"), Which::Live, 10), [3, 1]);
    assert_eq!(newest(Some("nobody"), Which::All, 10), Vec::<u64>::new());
    assert_eq!(newest(None, Which::All, 10), [6, 4, 3, 2, 1]);
    assert_eq!(newest(None, Which::Live, 2), [4, 3]);
    let expired_since = sample::record().observed_at;
    let later = Timestamp::from_millis(expired_since.as_millis() + 1);
    for (tenant, since, shown) in [
        (Some("mine"), expired_since, &[6, 3, 1][..]),
        (None, expired_since, &[6, 4, 3, 1]),
        (None, later, &[4, 3, 1]),
    ] {
        let which = Which::Shown { expired_since: since };
        assert_eq!(newest(tenant, which, 10), shown);
        assert_eq!(
            store.list(which).expect("lists").iter().any(|one| one.state == State::Expired),
            since != later
        );
    }
}

pub fn the_key_of_what_has_expired_is_free(home: &impl Home) {
    let store = home.open();
    let keyed = || Record { key: Some(sample::key("k")), ..sample::record() };
    let expired = keyed();
    store.open(expired.clone()).expect("opens");
    [State::Ready, State::Expired].iter().for_each(|state| become_state(&*store, &expired.id, *state));

    let opened = store.open(keyed()).expect("opens");

    assert!(matches!(&opened, Opened::Created(_)));
    let found = store.find_key(None, &sample::key("k")).expect("looks").expect("it is there");
    assert_eq!(found.id, id_of(&opened));
    assert_eq!(store.find(&expired.id).expect("looks").and_then(|kept| kept.key), expired.key);
}

pub fn what_has_ended_keeps_no_environment(home: &impl Home) {
    let store = home.open();
    for ending in [&[State::Failed][..], &[State::Ready, State::Destroying, State::Destroyed]] {
        let mut record = sample::record();
        record.spec.env.insert("NAME".into(), "value".into());
        store.open(record.clone()).expect("opens");
        let kept = || store.find(&record.id).expect("finds").expect("it is there").spec.env;

        for state in ending {
            assert_eq!(kept(), record.spec.env, "before {state}");
            become_state(&*store, &record.id, *state);
        }

        assert!(kept().is_empty(), "{ending:?}");
    }
}

pub fn backends_of_what_has_ended_are_known_for_a_while(home: &impl Home) {
    let store = home.open();
    let on = |backend: &str, millis| {
        let observed_at = Timestamp::from_millis(millis);
        Record { observed_at, backend: backend.to_owned(), ..sample::record() }
    };
    let (old, new, live) = (on("old", 10), on("new", 20), on("live", 30));
    for record in [&old, &new, &live] {
        store.open(record.clone()).expect("opens");
    }
    become_state(&*store, &old.id, State::Failed);
    become_state(&*store, &new.id, State::Failed);

    let ended = store.ended_on(Timestamp::from_millis(20)).expect("lists");

    assert_eq!(ended.into_iter().collect::<Vec<_>>(), ["new"]);
}

pub fn each_tenant_has_keys_of_its_own(home: &impl Home) {
    let store = home.open();
    // If the store joined tenant and key without care, these would collide.
    let owners = [None, Some("a"), Some("a.b")];
    let keys = ["b.k", "k"];
    for (tenant, key) in owners.iter().flat_map(|tenant| keys.map(|key| (tenant, key))) {
        let tenant = tenant.map(sample::tenant);

        let opened = store.open(Record { tenant: tenant.clone(), ..keyed(key) }).expect("opens");

        assert!(matches!(opened, Opened::Created(_)), "{tenant:?} {key}");
        let found = store.find_key(tenant.as_ref(), &sample::key(key)).expect("looks");
        assert_eq!(found.map(|record| record.id), Some(id_of(&opened)), "{tenant:?} {key}");
    }
}

pub fn what_takes_room_is_counted_for_its_tenant(home: &impl Home) {
    let store = home.open();
    let of = |tenant: &str| Record { tenant: Some(sample::tenant(tenant)), ..sample::record() };
    let (mine, gone, lost) = (of("mine"), of("mine"), of("mine"));
    for record in [&mine, &gone, &lost, &of("other"), &sample::record()] {
        store.open(record.clone()).expect("opens");
    }
    become_state(&*store, &gone.id, State::Failed);
    [State::Ready, State::Lost].iter().for_each(|state| become_state(&*store, &lost.id, *state));

    let count = |tenant: &str| store.count(&sample::tenant(tenant)).expect("counts").places;
    assert_eq!((count("mine"), count("other"), count("nobody")), (1, 1, 0));
}

pub fn a_sleeper_takes_no_place_and_takes_one_again_when_it_wakes(home: &impl Home) {
    let store = home.open();
    let quota = |asleep| Some(Quota { most: 1, more: 1, asleep });
    let mine = || Record { tenant: Some(sample::tenant("mine")), ..sample::record() };
    let (sleeper, awake) = (mine(), mine());
    store.open_within(sleeper.clone(), quota(Some(1))).expect("it is the first");
    [State::Ready, State::Hibernated].iter().for_each(|state| become_state(&*store, &sleeper.id, *state));
    let count = || store.count(&sample::tenant("mine")).expect("counts");
    assert_eq!(count(), Population { places: 0, asleep: 1 });

    let one_too_many_may_sleep = store.open_within(mine(), quota(Some(1)));
    store.open_within(awake.clone(), quota(None)).expect("one that never sleeps has a place");
    let wake = || {
        let woken = &mut |record| Ok(Record { state: State::Resuming, ..record });
        store.update_within(&sleeper.id, Durability::Process, quota(None), woken)
    };
    let no_place_to_wake = wake();
    assert_eq!(count(), Population { places: 1, asleep: 1 });
    become_state(&*store, &awake.id, State::Failed);
    wake().expect("there is a place");

    assert_eq!(count(), Population { places: 1, asleep: 0 });
    let refused = one_too_many_may_sleep.expect_err("one sleeps");
    assert_eq!(
        (refused.kind, &refused.details["limit"]),
        (Kind::LimitExceeded, &json!("tenants.hibernated"))
    );
    assert!(refused.hint.is_some());
    assert_kind(no_place_to_wake, Kind::LimitExceeded);
}

pub fn of_many_who_want_a_tenants_last_places_no_more_get_one(home: &impl Home) {
    let quota = Some(Quota { most: 2, more: 1, asleep: None });
    let mine = || Record { tenant: Some(sample::tenant("mine")), ..sample::record() };

    let opened: Vec<_> = thread::scope(|scope| {
        let openers: Vec<_> =
            (0..8).map(|_| scope.spawn(|| home.open().open_within(mine(), quota))).collect();
        openers.into_iter().map(|opener| opener.join().expect("no panic")).collect()
    });

    let (got, refused): (Vec<_>, Vec<_>) = opened.into_iter().partition(Result::is_ok);
    assert_eq!((got.len(), refused.len()), (2, 6));
    refused.into_iter().for_each(|refused| assert_kind(refused, Kind::LimitExceeded));
    let store = home.open();
    assert_eq!(store.count(&sample::tenant("mine")).expect("counts").places, 2);
    // Others have places of their own, and the home's own people as many as they like.
    let other = Record { tenant: Some(sample::tenant("other")), ..sample::record() };
    store.open_within(other, quota).expect("opens");
    (0..3).for_each(|_| drop(store.open_within(sample::record(), quota).expect("opens")));
    // One place is left where two are wanted.
    assert_kind(
        store.open_within(mine(), Some(Quota { most: 3, more: 2, asleep: None })),
        Kind::LimitExceeded,
    );
}

pub fn what_a_key_finds_takes_no_place(home: &impl Home) {
    let store = home.open();
    let quota = Some(Quota { most: 1, more: 1, asleep: None });
    let mine = || Record { tenant: Some(sample::tenant("mine")), ..keyed("k") };
    let first = store.open_within(mine(), quota).expect("opens");

    let second = store.open_within(mine(), quota).expect("opens");

    assert!(matches!(&second, Opened::Existing(found) if found.id == id_of(&first)), "{second:?}");
}

pub fn a_change_takes_no_place_a_tenant_does_not_have(home: &impl Home) {
    let store = home.open();
    let quota = Some(Quota { most: 1, more: 1, asleep: None });
    let (spare, other) = (sample::record(), sample::record());
    for record in [&spare, &other] {
        store.open(record.clone()).expect("opens");
    }
    let give = |id: &SandboxId| {
        store.update_within(id, Durability::Process, quota, &mut |record| {
            Ok(Record { tenant: Some(sample::tenant("mine")), ..record })
        })
    };

    give(&spare.id).expect("there is one place");
    assert_kind(give(&other.id), Kind::LimitExceeded);

    assert_eq!(store.find(&other.id).expect("looks").and_then(|record| record.tenant), None);
    give(&spare.id).expect("it has its place already");
}

pub fn the_instance_stays_the_same(home: &impl Home) {
    let first = home.open().instance().expect("has an id");

    assert_eq!(home.open().instance().expect("has an id"), first);
}

pub fn work_on_a_sandbox_excludes_others_until_it_is_dropped(home: &impl Home) {
    let id = sample::sandbox();
    let work = home.open().work_on(&id, &Cancel::default()).expect("it is free");
    let other = home.open();
    assert!(other.try_work_on(&id).expect("asks").is_none());

    let waited = thread::scope(|scope| {
        let waiter =
            scope.spawn(|| drop(home.open().work_on(&id, &Cancel::default()).expect("gets it in the end")));
        // No proof that it waits, but it catches a store that does not most of the time.
        thread::sleep(Duration::from_millis(20));
        let waited = !waiter.is_finished();
        drop(work);
        waited
    });

    assert!(waited);
    assert!(other.try_work_on(&id).expect("asks").is_some());
}

pub fn a_cancelled_call_does_not_wait_for_the_work_of_another(home: &impl Home) {
    let (id, cancel) = (sample::sandbox(), Cancel::default());
    let work = home.open().work_on(&id, &cancel).expect("it is free");

    thread::scope(|scope| {
        let waiter = scope.spawn(|| home.open().work_on(&id, &cancel).map(drop));
        // By now it waits, most likely. If not, it must notice the end all the same.
        thread::sleep(Duration::from_millis(20));
        cancel.cancel();
        let refused = waiter.join().expect("it does not panic").expect_err("another has it");
        assert_eq!(refused.kind, Kind::Aborted);
    });

    drop(work);
    home.open().work_on(&id, &cancel).expect("what is free needs no wait");
}

pub fn work_on_one_sandbox_leaves_others_free(home: &impl Home) {
    let store = home.open();
    let _work = store.work_on(&sample::sandbox(), &Cancel::default()).expect("it is free");

    assert!(store.try_work_on(&sample::sandbox()).expect("asks").is_some());
}

pub fn workers_are_never_two_at_once(home: &impl Home) {
    let (id, working, most) = (sample::sandbox(), AtomicUsize::new(0), AtomicUsize::new(0));
    let work_often = || {
        let store = home.open();
        for _ in 0..100 {
            let work = store.work_on(&id, &Cancel::default()).expect("gets it in the end");
            most.fetch_max(working.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            thread::yield_now();
            working.fetch_sub(1, Ordering::SeqCst);
            drop(work);
        }
    };

    thread::scope(|scope| (0..4).for_each(|_| drop(scope.spawn(work_often))));

    assert_eq!(most.into_inner(), 1);
}

fn keyed(name: &str) -> Record {
    Record { key: Some::<SessionKey>(sample::key(name)), ..sample::record() }
}

fn id_of(opened: &Opened) -> SandboxId {
    match opened {
        Opened::Created(record) | Opened::Existing(record) => record.id.clone(),
    }
}

fn become_state(store: &dyn Store, id: &SandboxId, state: State) {
    store.update(id, Durability::Process, &mut |record| Ok(Record { state, ..record })).expect("updates");
}

fn assert_kind<T: std::fmt::Debug>(result: Result<T>, kind: Kind) {
    assert_eq!(result.expect_err("it is refused").kind, kind);
}
