//! The contract of every store for events. A part of the suite of stores.

use std::thread;

use serde_json::json;

use super::store::Home;
use crate::sample;
use coracle_core::clock::Timestamp;
use coracle_core::event::{self, End, Event, Filter, Kind, Page};
use coracle_core::exec::Outcome;
use coracle_core::headroom::{Left, Level, Reserve};
use coracle_core::ids::ExecId;
use coracle_core::lease::{self, Claim, Lease};
use coracle_core::lifecycle::State;
use coracle_core::record::Record;
use coracle_core::store::{Durability, Opened, Store};

/// Runs the part against the [`Home`] that `$make()` returns, a fresh one for each test.
#[macro_export]
macro_rules! event_conformance {
    ($make:expr) => {
        $crate::conformance_clauses!(
            $make,
            events,
            $crate::conformance::events,
            [
                a_home_begins_without_events,
                a_life_is_told_in_order,
                what_happens_to_the_home_is_told_of_no_sandbox_and_to_no_tenant,
                what_changes_nothing_tells_nothing,
                a_change_that_is_refused_tells_nothing,
                an_opening_that_finds_another_tells_nothing,
                a_spare_is_told_of_when_it_is_taken,
                a_spare_nobody_takes_is_never_told_of,
                every_field_of_an_event_is_read_again,
                the_start_and_the_end_of_an_exec_are_told_once,
                many_who_see_one_end_tell_it_once,
                the_end_of_a_sandbox_is_the_end_of_its_execs,
                a_reader_goes_on_where_it_stopped,
                a_tenant_reads_its_own_events_only,
                a_filter_leaves_out_and_still_moves_on,
                what_is_forgotten_is_everything_up_to_a_number,
                numbers_are_never_used_again,
                whoever_has_most_events_makes_room,
                a_reader_of_everything_learns_page_by_page_what_is_missing,
                an_end_from_before_all_that_is_kept_is_not_told_again,
                an_end_is_told_where_only_others_have_forgotten,
                writers_at_the_same_time_leave_no_hole_behind_a_reader,
            ]
        );
    };
}

pub fn a_home_begins_without_events(home: &impl Home) {
    assert_eq!(all(&*home.open()), Page::default());
    assert_eq!(home.open().newest_event().expect("looks"), 0);
}

pub fn a_life_is_told_in_order(home: &impl Home) {
    let store = home.open();
    let record = opened(&*store, sample::record());

    for state in [State::Ready, State::Paused, State::Ready, State::Destroying, State::Destroyed] {
        become_state(&*store, &record, state);
    }

    let page = all(&*home.open());
    assert_eq!(
        kinds(&page),
        [Kind::Opened, Kind::Ready, Kind::Paused, Kind::Resumed, Kind::Destroying, Kind::Destroyed]
    );
    assert_eq!(numbers(&page), [1, 2, 3, 4, 5, 6]);
    assert!(page.events.iter().all(|numbered| numbered.event.sandbox_id.as_ref() == Some(&record.id)));
    assert_eq!((page.next, home.open().newest_event().expect("looks")), (6, 6));
}

pub fn what_happens_to_the_home_is_told_of_no_sandbox_and_to_no_tenant(home: &impl Home) {
    let store = home.open();
    let left = Left { bytes: 1, total_bytes: 1 << 30, inodes: None };
    let level = Level::of(left, Reserve::Usual, 0);

    store.tell(&[event::storage(&level, Timestamp::from_millis(5))]).expect("tells");

    let page = all(&*home.open());
    assert_eq!((kinds(&page), page.events[0].event.sandbox_id.as_ref()), (vec![Kind::StorageLow], None));
    let filter = Filter { tenant: Some(sample::tenant("mine")), ..Filter::default() };
    assert!(store.events(0, &filter, 10).expect("reads").events.is_empty());
}

pub fn what_changes_nothing_tells_nothing(home: &impl Home) {
    let store = home.open();
    let record = opened(&*store, sample::record());

    store.update(&record.id, Durability::Process, &mut Ok).expect("updates");

    assert_eq!(kinds(&all(&*store)), [Kind::Opened]);
}

pub fn a_change_that_is_refused_tells_nothing(home: &impl Home) {
    let store = home.open();
    let key = Some(sample::key("taken"));
    opened(&*store, Record { key: key.clone(), ..sample::record() });
    let other = opened(&*store, sample::record());

    let refused = store.update(&other.id, Durability::Process, &mut |record| {
        Ok(Record { key: key.clone(), state: State::Ready, ..record })
    });

    assert!(refused.is_err());
    assert_eq!(kinds(&all(&*store)), [Kind::Opened, Kind::Opened]);
}

pub fn an_opening_that_finds_another_tells_nothing(home: &impl Home) {
    let store = home.open();
    let keyed = || Record { key: Some(sample::key("one")), ..sample::record() };
    opened(&*store, keyed());

    store.open(keyed()).expect("opens");

    assert_eq!(kinds(&all(&*store)), [Kind::Opened]);
}

pub fn a_spare_is_told_of_when_it_is_taken(home: &impl Home) {
    let store = home.open();
    let spare = opened(&*store, untaken());
    become_state(&*store, &spare, State::Spare);
    assert_eq!(all(&*store), Page::default());

    let claim = Claim { run: sample::run("run_taker"), epoch: None };
    let taken = store.update(&spare.id, Durability::Process, &mut |mut record| {
        record.lease = record.lease.step(&claim, &lease::Event::Claim).expect("it has no owner");
        Ok(Record { state: State::Ready, ..record })
    });

    let page = all(&*store);
    assert_eq!(kinds(&page), [Kind::Opened, Kind::Ready]);
    let owner = taken.expect("updates").lease.owner().cloned();
    assert!(page.events.iter().all(|numbered| numbered.event.run == owner), "{page:?}");
}

pub fn a_spare_nobody_takes_is_never_told_of(home: &impl Home) {
    let store = home.open();
    for states in [
        &[State::Spare, State::Destroying, State::Destroyed][..],
        &[State::Failed],
        &[State::Destroying, State::DestroyFailed, State::Destroying, State::Destroyed],
    ] {
        let spare = opened(&*store, untaken());
        states.iter().for_each(|state| become_state(&*store, &spare, *state));
    }

    assert_eq!(all(&*store), Page::default());
}

pub fn every_field_of_an_event_is_read_again(home: &impl Home) {
    let store = home.open();
    let record = Record {
        tenant: Some("tnt_a".parse().expect("an id")),
        reason: Some("why \"not\" \n".into()),
        ..sample::record()
    };
    let record = opened(&*store, record);
    let exec: ExecId = "exec_1".parse().expect("an id");
    let started = event::exec_started(&record, &exec, at(1_700_000_000_001));
    let end = End { outcome: Outcome::Exited { code: 3 }, duration_ms: Some(7), limits_hit: Vec::new() };
    let ended = event::exec_ended(&record, &exec, at(1_700_000_000_002), &end);

    store.tell(&[started.clone(), ended.clone()]).expect("tells");

    let stored: Vec<Event> = all(&*home.open()).events.into_iter().map(|numbered| numbered.event).collect();
    assert_eq!(stored[1..], [started, ended]);
    assert_eq!(stored[2].details["outcome"], json!({"kind": "exited", "code": 3}));
}

pub fn the_start_and_the_end_of_an_exec_are_told_once(home: &impl Home) {
    let store = home.open();
    let record = opened(&*store, sample::record());

    for _ in 0..3 {
        tell_exec(&*store, &record, "exec_1", Kind::ExecStarted, 5_000_000_000_000);
        tell_exec(&*store, &record, "exec_1", Kind::ExecEnded, 5_000_000_000_000);
    }
    tell_exec(&*store, &record, "exec_2", Kind::ExecStarted, 5_000_000_000_000);

    let page = all(&*store);
    assert_eq!(kinds(&page), [Kind::Opened, Kind::ExecStarted, Kind::ExecEnded, Kind::ExecStarted]);
    assert_eq!(numbers(&page), [1, 2, 3, 4]);
}

pub fn many_who_see_one_end_tell_it_once(home: &impl Home) {
    let record = opened(&*home.open(), sample::record());
    tell_exec(&*home.open(), &record, "exec_1", Kind::ExecStarted, 5_000_000_000_000);
    let see = || tell_exec(&*home.open(), &record, "exec_1", Kind::ExecEnded, 5_000_000_000_000);

    thread::scope(|scope| (0..8).for_each(|_| drop(scope.spawn(see))));

    assert_eq!(kinds(&all(&*home.open())), [Kind::Opened, Kind::ExecStarted, Kind::ExecEnded]);
}

pub fn the_end_of_a_sandbox_is_the_end_of_its_execs(home: &impl Home) {
    let store = home.open();
    for ending in
        [&[State::Lost, State::Destroying, State::Destroyed][..], &[State::Destroying, State::Destroyed]]
    {
        let before = store.newest_event().expect("looks");
        let record = opened(&*store, sample::record());
        become_state(&*store, &record, State::Ready);
        tell_exec(&*store, &record, "exec_seen", Kind::ExecStarted, 5_000_000_000_000);
        tell_exec(&*store, &record, "exec_seen", Kind::ExecEnded, 5_000_000_000_000);
        tell_exec(&*store, &record, "exec_unseen", Kind::ExecStarted, 5_000_000_000_000);

        ending.iter().for_each(|state| become_state(&*store, &record, *state));

        let page = store.events(before, &Filter::default(), 100).expect("reads");
        let ends: Vec<_> =
            page.events.iter().filter(|numbered| numbered.event.kind == Kind::ExecEnded).collect();
        assert_eq!(ends.len(), 2, "{ending:?}: {page:?}");
        assert_eq!(ends[1].event.exec_id.as_ref().map(ExecId::as_str), Some("exec_unseen"));
        assert_eq!(ends[1].event.details["outcome"], json!({"kind": "lost"}));
    }
}

pub fn a_reader_goes_on_where_it_stopped(home: &impl Home) {
    let store = home.open();
    (0..5).for_each(|_| drop(opened(&*store, sample::record())));

    let first = store.events(0, &Filter::default(), 2).expect("reads");
    let second = store.events(first.next, &Filter::default(), 2).expect("reads");
    let third = store.events(second.next, &Filter::default(), 2).expect("reads");
    let behind = store.events(third.next, &Filter::default(), 2).expect("reads");

    assert_eq!((numbers(&first), first.next), (vec![1, 2], 2));
    assert_eq!((numbers(&second), second.next), (vec![3, 4], 4));
    assert_eq!((numbers(&third), third.next), (vec![5], 5));
    assert_eq!((numbers(&behind), behind.next), (vec![], 5));
}

pub fn a_tenant_reads_its_own_events_only(home: &impl Home) {
    let store = home.open();
    let tenant = |name: &str| Some(name.parse().expect("an id"));
    for of in [tenant("tnt_a"), tenant("tnt_b"), None] {
        opened(&*store, Record { tenant: of, ..sample::record() });
    }

    let seen =
        |of| numbers(&store.events(0, &Filter { tenant: of, ..Filter::default() }, 10).expect("reads"));

    assert_eq!(seen(tenant("tnt_a")), [1]);
    assert_eq!(seen(tenant("tnt_b")), [2]);
    assert_eq!(seen(tenant("tnt_c")), Vec::<u64>::new());
    assert_eq!(seen(None), [1, 2, 3]);
}

pub fn a_filter_leaves_out_and_still_moves_on(home: &impl Home) {
    let store = home.open();
    let record = opened(&*store, sample::record());
    let other = opened(&*store, sample::record());
    for of in [&record, &other] {
        become_state(&*store, of, State::Ready);
    }
    let read = |filter: Filter| store.events(0, &filter, 10).expect("reads");

    let by_sandbox = read(Filter { sandbox: Some(other.id.clone()), ..Filter::default() });
    let by_kind = read(Filter { kinds: vec![Kind::Ready, Kind::Paused], ..Filter::default() });
    let by_exec = read(Filter { exec: "exec_none".parse().ok(), ..Filter::default() });
    let by_time = read(Filter { from: Some(at(9_000_000_000_000)), ..Filter::default() });

    assert_eq!((numbers(&by_sandbox), by_sandbox.next), (vec![2, 4], 4));
    assert_eq!((numbers(&by_kind), by_kind.next), (vec![3, 4], 4));
    assert_eq!((numbers(&by_exec), by_exec.next), (vec![], 4), "no exec was started");
    assert_eq!((numbers(&by_time), by_time.next), (vec![], 4));
}

pub fn what_is_forgotten_is_everything_up_to_a_number(home: &impl Home) {
    let store = home.open();
    for millis in [10, 30, 20, 40, 50, 60] {
        let time = at(millis);
        opened(&*store, Record { created_at: time, updated_at: time, observed_at: time, ..sample::record() });
    }

    let young = store.forget_events(at(25), 100).expect("forgets");
    let page = store.events(0, &Filter::default(), 10).expect("reads");
    assert_eq!((young, numbers(&page), page.forgotten), (1, vec![2, 3, 4, 5, 6], 1));

    let many = store.forget_events(at(0), 2).expect("forgets");
    let page = store.events(0, &Filter::default(), 10).expect("reads");
    assert_eq!((many, numbers(&page), page.forgotten), (3, vec![5, 6], 4));
}

pub fn numbers_are_never_used_again(home: &impl Home) {
    let store = home.open();
    (0..3).for_each(|_| drop(opened(&*store, sample::record())));

    store.forget_events(at(u64::MAX), 0).expect("forgets");
    store.forget_events(at(u64::MAX), 0).expect("forgets");
    opened(&*home.open(), sample::record());

    assert_eq!(numbers(&all(&*store)), [3, 4]);
    assert_eq!(all(&*store).forgotten, 2);
}

pub fn whoever_has_most_events_makes_room(home: &impl Home) {
    let store = home.open();
    // `busy` has 1, 2, 4, 6, 8, 9.
    for of in ["busy", "busy", "quiet", "busy", "", "busy", "quiet", "busy", "busy"] {
        opened(&*store, of_tenant(of));
    }

    let forgotten = store.forget_events(at(0), 5).expect("forgets");

    assert_eq!((forgotten, numbers(&all(&*store))), (4, vec![3, 5, 7, 8, 9]));
    assert_eq!(forgotten_of(&*store, "busy"), 6);
    assert_eq!(forgotten_of(&*store, "quiet"), 0, "nothing of theirs is missing");
    store.forget_events(at(u64::MAX), 5).expect("forgets");
    assert_eq!((numbers(&all(&*store)), forgotten_of(&*store, "busy")), (vec![9], 8));
    assert_eq!(forgotten_of(&*store, "quiet"), 7);
}

pub fn a_reader_of_everything_learns_page_by_page_what_is_missing(home: &impl Home) {
    let store = home.open();
    for of in ["quiet", "busy", "quiet", "busy", "quiet", "busy", "busy"] {
        opened(&*store, of_tenant(of));
    }
    store.forget_events(at(0), 5).expect("forgets");

    let first = store.events(1, &Filter::default(), 1).expect("reads");
    let second = store.events(first.next, &Filter::default(), 10).expect("reads");
    let behind = store.events(second.next, &Filter::default(), 10).expect("reads");

    assert_eq!((numbers(&first), first.forgotten), (vec![3], 3));
    assert_eq!((numbers(&second), second.forgotten), (vec![5, 6, 7], 4));
    assert_eq!((numbers(&behind), behind.forgotten, behind.next), (vec![], 4, 7));
}

pub fn an_end_is_told_where_only_others_have_forgotten(home: &impl Home) {
    let store = home.open();
    let quiet = opened(&*store, of_tenant("quiet"));
    tell_exec(&*store, &quiet, "exec_1", Kind::ExecStarted, 5_000_000_000_000);
    let busy = opened(&*store, of_tenant("busy"));
    for exec in ["exec_1", "exec_2", "exec_3"] {
        tell_exec(&*store, &busy, exec, Kind::ExecStarted, 6_000_000_000_000);
    }
    store.forget_events(at(0), 4).expect("forgets");

    tell_exec(&*store, &quiet, "exec_1", Kind::ExecEnded, 5_000_000_000_000);
    tell_exec(&*store, &busy, "exec_1", Kind::ExecStarted, 5_000_000_000_000);

    assert_eq!(numbers(&all(&*store)), [1, 2, 5, 6, 7]);
}

pub fn an_end_from_before_all_that_is_kept_is_not_told_again(home: &impl Home) {
    let store = home.open();
    let record = opened(&*store, sample::record());
    tell_exec(&*store, &record, "exec_1", Kind::ExecStarted, 5_000_000_000_000);
    tell_exec(&*store, &record, "exec_1", Kind::ExecEnded, 5_000_000_000_000);
    tell_exec(&*store, &record, "exec_2", Kind::ExecStarted, 6_000_000_000_000);
    store.forget_events(at(0), 1).expect("forgets");

    tell_exec(&*store, &record, "exec_1", Kind::ExecEnded, 5_000_000_000_000);
    tell_exec(&*store, &record, "exec_2", Kind::ExecEnded, 7_000_000_000_000);

    assert_eq!(numbers(&all(&*store)), [4, 5]);
}

pub fn writers_at_the_same_time_leave_no_hole_behind_a_reader(home: &impl Home) {
    let write = || {
        let store = home.open();
        (0..25).for_each(|_| drop(opened(&*store, sample::record())));
    };
    let (store, mut seen) = (home.open(), Vec::new());

    thread::scope(|scope| {
        (0..4).for_each(|_| drop(scope.spawn(write)));
        while seen.len() < 100 {
            let since = seen.last().copied().unwrap_or(0);
            seen.extend(numbers(&store.events(since, &Filter::default(), 7).expect("reads")));
        }
    });

    assert_eq!(seen, (1..=100).collect::<Vec<u64>>());
}

/// A sandbox that is made ahead.
fn untaken() -> Record {
    Record { lease: Lease::unowned(), ..sample::record() }
}

fn of_tenant(name: &str) -> Record {
    let tenant = (!name.is_empty()).then(|| sample::tenant(name));
    Record { tenant, ..sample::record() }
}

fn forgotten_of(store: &dyn Store, tenant: &str) -> u64 {
    let filter = Filter { tenant: Some(sample::tenant(tenant)), ..Filter::default() };
    store.events(0, &filter, 10).expect("reads").forgotten
}

fn opened(store: &dyn Store, record: Record) -> Record {
    match store.open(record).expect("opens") {
        Opened::Created(record) => record,
        Opened::Existing(record) => panic!("`{}` was there already", record.id),
    }
}

fn become_state(store: &dyn Store, record: &Record, state: State) {
    let stepped = store.update(&record.id, Durability::Process, &mut |record| Ok(Record { state, ..record }));
    stepped.expect("updates");
}

fn tell_exec(store: &dyn Store, record: &Record, exec: &str, kind: Kind, millis: u64) {
    let exec = exec.parse().expect("an id");
    let end = End { outcome: Outcome::Exited { code: 0 }, duration_ms: Some(1), limits_hit: Vec::new() };
    let reported = match kind {
        Kind::ExecStarted => event::exec_started(record, &exec, at(millis)),
        _ => event::exec_ended(record, &exec, at(millis), &end),
    };
    store.tell(&[reported]).expect("tells");
}

fn all(store: &dyn Store) -> Page {
    store.events(0, &Filter::default(), 1000).expect("reads")
}

fn kinds(page: &Page) -> Vec<Kind> {
    page.events.iter().map(|numbered| numbered.event.kind).collect()
}

fn numbers(page: &Page) -> Vec<u64> {
    page.events.iter().map(|numbered| numbered.seq).collect()
}

fn at(millis: u64) -> Timestamp {
    Timestamp::from_millis(millis)
}
