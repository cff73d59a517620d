//! The contract of every implementation of `Answers`.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use crate::sample;
use coracle_core::answer::{Answer, Answers, Asked, Bounds, Recalled};
use coracle_core::clock::Timestamp;

/// A place where answers are kept. Each opening stands for another process.
pub trait Memory: Sync {
    fn answers(&self) -> Box<dyn Answers>;
}

/// Runs the suite against the [`Memory`] that `$make()` returns, a fresh one for each test.
#[macro_export]
macro_rules! answer_conformance {
    ($make:expr) => {
        $crate::conformance_clauses!(
            $make,
            answers_contract,
            $crate::conformance::answers,
            [
                an_answer_is_told_again_to_the_same_question,
                another_question_under_the_same_key_is_told_apart,
                a_question_without_an_answer_is_known_as_one,
                each_run_of_each_tenant_has_keys_of_its_own,
                what_was_withdrawn_may_be_asked_anew,
                of_many_who_ask_at_once_exactly_one_is_first,
                the_oldest_answers_of_a_tenant_make_room,
                no_more_answers_are_forgotten_than_have_to_be,
                an_answer_that_took_long_is_as_new_as_it_was_given,
                an_answer_that_was_just_given_stays,
                questions_without_an_answer_take_no_room_of_answers,
                the_oldest_questions_without_an_answer_make_room,
                an_answer_to_what_was_forgotten_is_not_kept,
                what_was_asked_before_a_time_is_forgotten,
            ]
        );
    };
}

const PLENTY: Bounds = Bounds { keys: 1000, bytes: 1 << 20 };

fn at(millis: u64) -> Timestamp {
    Timestamp::from_millis(millis)
}

fn asked(tenant: Option<&str>, run: &str, key: &str) -> Asked {
    Asked { tenant: tenant.map(sample::tenant), run: sample::run(run), key: key.parse().expect("a key") }
}

fn answer(text: &str) -> Answer {
    Answer { status: 200, body: text.as_bytes().to_vec() }
}

pub fn an_answer_is_told_again_to_the_same_question(memory: &impl Memory) {
    let key = asked(Some("acme"), "run_a", "k");
    assert_eq!(memory.answers().ask(&key, &[1; 32], at(1), PLENTY).expect("asks"), Recalled::New);
    memory.answers().answer(&key, &answer("done \0"), PLENTY).expect("keeps it");

    let again = memory.answers().ask(&key, &[1; 32], at(2), PLENTY).expect("asks");

    assert_eq!(again, Recalled::Answered(answer("done \0")));
}

pub fn another_question_under_the_same_key_is_told_apart(memory: &impl Memory) {
    let (store, key) = (memory.answers(), asked(None, "run_a", "k"));
    store.ask(&key, &[1; 32], at(1), PLENTY).expect("asks");

    assert_eq!(store.ask(&key, &[2; 32], at(2), PLENTY).expect("asks"), Recalled::Other);
    store.answer(&key, &answer("done"), PLENTY).expect("keeps it");
    assert_eq!(store.ask(&key, &[2; 32], at(3), PLENTY).expect("asks"), Recalled::Other);
}

pub fn a_question_without_an_answer_is_known_as_one(memory: &impl Memory) {
    let key = asked(None, "run_a", "k");
    memory.answers().ask(&key, &[1; 32], at(1), PLENTY).expect("asks");

    assert_eq!(memory.answers().ask(&key, &[1; 32], at(2), PLENTY).expect("asks"), Recalled::Unanswered);
}

pub fn each_run_of_each_tenant_has_keys_of_its_own(memory: &impl Memory) {
    let store = memory.answers();
    for tenant in [None, Some("acme"), Some("other")] {
        for run in ["run_a", "run_b"] {
            let first = store.ask(&asked(tenant, run, "k"), &[1; 32], at(1), PLENTY).expect("asks");
            assert_eq!(first, Recalled::New, "{tenant:?} {run}");
        }
    }
}

pub fn what_was_withdrawn_may_be_asked_anew(memory: &impl Memory) {
    let (store, key) = (memory.answers(), asked(None, "run_a", "k"));
    store.ask(&key, &[1; 32], at(1), PLENTY).expect("asks");

    store.withdraw(&key).expect("withdraws");

    assert_eq!(store.ask(&key, &[2; 32], at(2), PLENTY).expect("asks"), Recalled::New);
}

pub fn of_many_who_ask_at_once_exactly_one_is_first(memory: &impl Memory) {
    let (key, first) = (asked(Some("acme"), "run_a", "k"), AtomicUsize::new(0));
    let ask = || {
        if memory.answers().ask(&key, &[1; 32], at(1), PLENTY).expect("asks") == Recalled::New {
            first.fetch_add(1, Ordering::SeqCst);
        }
    };

    thread::scope(|scope| (0..8).for_each(|_| drop(scope.spawn(ask))));

    assert_eq!(first.into_inner(), 1);
}

pub fn the_oldest_answers_of_a_tenant_make_room(memory: &impl Memory) {
    let store = memory.answers();
    let put = |tenant, number: u64, text: &str, bounds| {
        let key = asked(tenant, "run_a", &format!("k{number}"));
        store.ask(&key, &[1; 32], at(number), PLENTY).expect("asks");
        store.answer(&key, &answer(text), bounds).expect("keeps it");
    };
    put(None, 1, "the oldest, and of another tenant", PLENTY);
    (2..300).for_each(|number| put(Some("acme"), number, "short", PLENTY));

    put(Some("acme"), 300, &"long".repeat(100), Bounds { keys: 250, bytes: 1 << 20 });

    let known = |tenant, key: &str| {
        let recalled = store.ask(&asked(tenant, "run_a", key), &[1; 32], at(999), PLENTY).expect("asks");
        matches!(recalled, Recalled::Answered(_))
    };
    assert!(known(None, "k1") && known(Some("acme"), "k300") && known(Some("acme"), "k299"));
    assert!(!known(Some("acme"), "k2"));
    put(Some("acme"), 301, &"long".repeat(100), Bounds { keys: 1000, bytes: 500 });
    assert!(!known(Some("acme"), "k300"), "bytes are counted as well as keys");
}

pub fn no_more_answers_are_forgotten_than_have_to_be(memory: &impl Memory) {
    let store = memory.answers();
    let bounds = Bounds { keys: 1000, bytes: 100 };
    (1..=100).for_each(|number| put(&*store, number, "x", bounds));

    put(&*store, 101, "yyy", bounds);

    let known: Vec<_> = (1..=101).filter(|number| is_answered(&*store, *number)).collect();
    assert_eq!(known, (4..=101).collect::<Vec<_>>());
    put(&*store, 102, "z", Bounds { keys: 98, bytes: 1000 });
    assert!(!is_answered(&*store, 4) && is_answered(&*store, 5), "one more key is one less");
}

pub fn an_answer_that_took_long_is_as_new_as_it_was_given(memory: &impl Memory) {
    let (store, bounds) = (memory.answers(), Bounds { keys: 2, bytes: 1000 });
    ask(&*store, 1, bounds);
    (2..=3).for_each(|number| put(&*store, number, "quick", bounds));

    store.answer(&numbered(1), &answer("slow"), bounds).expect("keeps it");

    assert!(is_answered(&*store, 1) && !is_answered(&*store, 2) && is_answered(&*store, 3));
}

pub fn an_answer_that_was_just_given_stays(memory: &impl Memory) {
    let store = memory.answers();
    put(&*store, 1, "before", PLENTY);

    put(&*store, 2, "more than there is room for", Bounds { keys: 0, bytes: 5 });

    assert!(!is_answered(&*store, 1) && is_answered(&*store, 2));
}

pub fn questions_without_an_answer_take_no_room_of_answers(memory: &impl Memory) {
    let (store, bounds) = (memory.answers(), Bounds { keys: 3, bytes: 1000 });
    (1..=2).for_each(|number| ask(&*store, number, bounds));

    (3..=5).for_each(|number| put(&*store, number, "x", bounds));

    assert!((3..=5).all(|number| is_answered(&*store, number)));
    let first = store.ask(&numbered(1), &[1; 32], at(999), PLENTY).expect("asks");
    assert_eq!(first, Recalled::Unanswered);
}

pub fn the_oldest_questions_without_an_answer_make_room(memory: &impl Memory) {
    let (store, bounds) = (memory.answers(), Bounds { keys: 3, bytes: 1000 });
    let theirs = asked(Some("other"), "run_a", "k");
    store.ask(&theirs, &[1; 32], at(0), PLENTY).expect("asks");
    put(&*store, 1, "x", bounds);
    [3, 2, 4, 5].iter().for_each(|number| ask(&*store, *number, bounds));

    // Its clock is behind; it still counts as the newest.
    let late = store.ask(&numbered(6), &[1; 32], at(0), bounds).expect("asks");

    assert_eq!(late, Recalled::New);
    let recalled = |number| store.ask(&numbered(number), &[2; 32], at(9), PLENTY).expect("asks");
    for (number, known) in [(1, true), (2, false), (3, false), (4, true), (5, true), (6, true)] {
        assert_eq!(recalled(number) == Recalled::Other, known, "{number}");
    }
    assert_eq!(store.ask(&theirs, &[2; 32], at(9), PLENTY).expect("asks"), Recalled::Other);
}

pub fn an_answer_to_what_was_forgotten_is_not_kept(memory: &impl Memory) {
    let store = memory.answers();
    ask(&*store, 1, PLENTY);
    ask(&*store, 2, Bounds { keys: 1, bytes: 1000 });

    store.answer(&numbered(1), &answer("late"), PLENTY).expect("has nothing to keep");

    assert_eq!(store.ask(&numbered(1), &[2; 32], at(9), PLENTY).expect("asks"), Recalled::New);
}

pub fn what_was_asked_before_a_time_is_forgotten(memory: &impl Memory) {
    let store = memory.answers();
    for (name, millis) in [("old", 10), ("new", 20)] {
        store.ask(&asked(None, "run_a", name), &[1; 32], at(millis), PLENTY).expect("asks");
    }

    assert_eq!(store.forget_asked(at(20)).expect("forgets"), 1);

    assert_eq!(
        store.ask(&asked(None, "run_a", "old"), &[1; 32], at(30), PLENTY).expect("asks"),
        Recalled::New
    );
    assert_eq!(
        store.ask(&asked(None, "run_a", "new"), &[1; 32], at(30), PLENTY).expect("asks"),
        Recalled::Unanswered
    );
}

fn numbered(number: u64) -> Asked {
    asked(Some("acme"), "run_a", &format!("k{number}"))
}

fn ask(store: &dyn Answers, number: u64, bounds: Bounds) {
    let recalled = store.ask(&numbered(number), &[1; 32], at(number), bounds).expect("asks");
    assert_eq!(recalled, Recalled::New);
}

fn put(store: &dyn Answers, number: u64, text: &str, bounds: Bounds) {
    ask(store, number, bounds);
    store.answer(&numbered(number), &answer(text), bounds).expect("keeps it");
}

/// Notes a request, and withdraws it if it was new.
fn is_answered(store: &dyn Answers, number: u64) -> bool {
    let recalled = store.ask(&numbered(number), &[1; 32], at(999), PLENTY).expect("asks");
    if recalled == Recalled::New {
        store.withdraw(&numbered(number)).expect("withdraws");
    }
    matches!(recalled, Recalled::Answered(_))
}
