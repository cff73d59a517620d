//! What everything that keeps fetched packages must do.

use std::io::{Read, Write};
use std::thread;
use std::time::Duration;

use coracle_core::clock::Timestamp;
use coracle_core::install::{Claim, Draft, Ecosystem, Key, PackageCache, Project, Rules, Sealed};
use coracle_core::{Cancel, Kind};

/// A place where packages are kept. Each opening is another process as far as it can tell.
pub trait Warehouse {
    fn open(&self, rules: Rules) -> Box<dyn PackageCache>;
}

/// Runs the suite against the [`Warehouse`] that `$make()` returns, a fresh one for each test.
#[macro_export]
macro_rules! package_cache_conformance {
    ($make:expr) => {
        $crate::conformance_clauses!(
            $make,
            package_cache_contract,
            $crate::conformance::packages,
            [
                what_was_sealed_is_read_by_others_byte_for_byte,
                a_draft_that_is_dropped_leaves_nothing,
                of_many_one_makes_an_entry_and_all_get_it,
                all_who_wait_are_told_why_it_failed_and_who_comes_later_tries_again,
                a_cancelled_wait_ends,
                repositories_and_tenants_share_nothing,
                more_than_an_entry_may_have_is_refused,
                what_was_not_used_for_long_goes_and_what_is_in_use_stays,
            ]
        );
    };
}

const HOUR: Duration = Duration::from_secs(3600);

pub fn what_was_sealed_is_read_by_others_byte_for_byte(warehouse: &impl Warehouse) {
    let contents: Vec<u8> = (0..300_000_u32).map(|number| (number % 251) as u8).collect();
    make(&*open(warehouse), &key("a"), &contents);

    let sealed = sealed(&*open(warehouse), &key("a"));

    assert_eq!(sealed.bytes(), contents.len() as u64);
    assert_eq!(all_of(&*sealed), contents);
    assert_eq!(all_of(&*sealed), contents, "it can be read again");
}

pub fn a_draft_that_is_dropped_leaves_nothing(warehouse: &impl Warehouse) {
    let cache = open(warehouse);
    let mut draft = vacant(&*cache, &key("a"));
    draft.write_all(b"half").expect("writes");
    drop(draft);

    drop(vacant(&*cache, &key("a")));
    assert_eq!(cache.taken_by(None), 0);
}

pub fn of_many_one_makes_an_entry_and_all_get_it(warehouse: &impl Warehouse) {
    let draft = vacant(&*open(warehouse), &key("a"));
    let others: Vec<_> = (0..8).map(|_| open(warehouse)).collect();

    thread::scope(|scope| {
        let waiting: Vec<_> =
            others.iter().map(|cache| scope.spawn(move || all_of(&*sealed(&**cache, &key("a"))))).collect();
        let mut draft = draft;
        draft.write_all(b"packages").expect("writes");
        draft.seal(at(1)).expect("seals");

        for one in waiting {
            assert_eq!(one.join().expect("no waiter panics"), b"packages");
        }
    });
}

pub fn all_who_wait_are_told_why_it_failed_and_who_comes_later_tries_again(warehouse: &impl Warehouse) {
    let cache = open(warehouse);
    // Who waits cannot be seen, and one that begins too late makes a draft of its own: so it is tried with ever more time.
    let told = (0..12).any(|round| fail_before_others(warehouse, Duration::from_millis(1 << round)));

    assert!(told, "nobody was told");
    drop(vacant(&*cache, &key("a")));
}

/// Tells whether all of four callers were told of a failure that came so much later than they were started.
fn fail_before_others(warehouse: &impl Warehouse, later: Duration) -> bool {
    let draft = vacant(&*open(warehouse), &key("a"));
    let others: Vec<_> = (0..4).map(|_| open(warehouse)).collect();
    thread::scope(|scope| {
        let claim = |cache: &dyn PackageCache| match cache.claim(&key("a"), at(1), &Cancel::default()) {
            Ok(Claim::Failed(why)) => why == "no such host",
            _ => false,
        };
        let waiting: Vec<_> = others.iter().map(|cache| scope.spawn(move || claim(&**cache))).collect();
        thread::sleep(later);
        draft.fail("no such host");
        waiting.into_iter().all(|one| one.join().expect("no waiter panics"))
    })
}

pub fn a_cancelled_wait_ends(warehouse: &impl Warehouse) {
    let cache = open(warehouse);
    let _draft = vacant(&*cache, &key("a"));
    let cancel = Cancel::default();
    cancel.cancel();

    let refused = open(warehouse).claim(&key("a"), at(1), &cancel).expect_err("it was cancelled");

    assert_eq!(refused.kind, Kind::Aborted);
}

pub fn repositories_and_tenants_share_nothing(warehouse: &impl Warehouse) {
    let cache = open(warehouse);
    make(&*cache, &key("a"), b"packages");
    let tenant = Some("team".parse().expect("a tenant"));
    let of_tenant = Key { project: Project { tenant: tenant.clone(), repo: "a".to_owned() }, ..key("a") };

    drop(vacant(&*cache, &key("b")));
    make(&*cache, &of_tenant, b"theirs");

    assert_eq!(all_of(&*sealed(&*cache, &key("a"))), b"packages");
    assert!(cache.taken_by(tenant.as_ref()) >= 6 && cache.taken_by(None) >= 8);
}

pub fn more_than_an_entry_may_have_is_refused(warehouse: &impl Warehouse) {
    let cache = warehouse.open(Rules { entry_max: 100, ..Rules::default() });
    let mut draft = vacant(&*cache, &key("a"));

    draft.write_all(&[0; 100]).expect("as much as it may");

    assert!(draft.write_all(&[0]).is_err());
}

pub fn what_was_not_used_for_long_goes_and_what_is_in_use_stays(warehouse: &impl Warehouse) {
    let cache = warehouse.open(Rules { keep: HOUR, ..Rules::default() });
    for name in ["old", "held", "new"] {
        make(&*cache, &key(name), name.as_bytes());
    }
    let held = sealed(&*cache, &key("held"));
    let later = Timestamp::from_millis(at(1).as_millis() + HOUR.as_millis() as u64);
    let Ok(Claim::Sealed(_)) = cache.claim(&key("new"), later, &Cancel::default()) else {
        panic!("it is there")
    };

    assert_eq!(open(warehouse).sweep(at(2)).expect("sweeps"), 0);
    assert_eq!(cache.sweep(later).expect("sweeps"), 1);

    assert_eq!(all_of(&*held), b"held");
    drop(vacant(&*cache, &key("old")));
    assert_eq!(all_of(&*sealed(&*cache, &key("new"))), b"new");
}

fn open(warehouse: &impl Warehouse) -> Box<dyn PackageCache> {
    warehouse.open(Rules::default())
}

fn key(repo: &str) -> Key {
    Key {
        project: Project { tenant: None, repo: repo.to_owned() },
        ecosystem: Ecosystem::Npm,
        manifests_sha256: "00".to_owned(),
        image: "host".to_owned(),
        registry: None,
    }
}

fn at(millis: u64) -> Timestamp {
    Timestamp::from_millis(600_000 + millis)
}

fn make(cache: &dyn PackageCache, key: &Key, contents: &[u8]) {
    let mut draft = vacant(cache, key);
    draft.write_all(contents).expect("writes");
    draft.seal(at(1)).expect("seals");
}

fn vacant(cache: &dyn PackageCache, key: &Key) -> Box<dyn Draft> {
    match cache.claim(key, at(1), &Cancel::default()).expect("answers") {
        Claim::Vacant(draft) => draft,
        claim => panic!("there is something: {claim:?}"),
    }
}

fn sealed(cache: &dyn PackageCache, key: &Key) -> Box<dyn Sealed> {
    match cache.claim(key, at(1), &Cancel::default()).expect("answers") {
        Claim::Sealed(sealed) => sealed,
        claim => panic!("there is no entry: {claim:?}"),
    }
}

fn all_of(sealed: &dyn Sealed) -> Vec<u8> {
    let mut all = Vec::new();
    sealed.read().expect("opens").read_to_end(&mut all).expect("reads");
    all
}
