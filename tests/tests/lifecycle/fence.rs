//! The guest's own fence, reached past the store: it refuses a caller with an old epoch.

use std::ops::RangeInclusive;

use coracle_core::record::Secret;
use coracle_core::{Epoch, Record, Store};
use coracle_engine::guest::{Failure, Guest};
use coracle_stores::sqlite::SqliteStore;
use coracle_tests::{Home, requires};
use coracle_wire::{FaultCode, Refusal, VERSION_MAX};

fn record(home: &Home, sandbox: &str) -> Record {
    let store = SqliteStore::open(home.path()).expect("the home is there");
    let id = sandbox.parse().expect("an id");
    store.find(&id).expect("the store can be read").expect("the sandbox is recorded")
}

/// Connects to the guest directly, past the gate.
fn reach(
    home: &Home,
    record: &Record,
    secret: &Secret,
    epoch: u64,
    versions: RangeInclusive<u16>,
) -> Result<Guest, Failure> {
    let store = SqliteStore::open(home.path()).expect("the home is there");
    let instance = store.instance().expect("a home has an instance");
    let config = coracle_backends::BackendConfig::at(home.path(), instance);
    let backend = coracle_backends::all(&config).into_iter().find(|backend| backend.name() == record.backend);
    let placement = record.placement.as_ref().expect("a ready sandbox has a placement");
    let stream =
        backend.expect("its backend is known").connect(&record.id, placement).expect("the guest listens");
    Guest::connect_speaking(stream, secret, Epoch(epoch), versions)
}

fn refused_as_stale<T: std::fmt::Debug>(answer: Result<T, Failure>) -> bool {
    matches!(answer, Err(Failure::Fault(fault)) if matches!(fault.code, FaultCode::StaleEpoch { .. }))
}

#[test]
fn an_old_epoch_is_refused_by_the_guest() {
    requires!(native);
    let home = Home::new();
    let sandbox = home.open_with(&["--run", "run_a"]);
    let before = record(&home, &sandbox);
    let old = before.lease.epoch().0;
    let mut early = reach(&home, &before, &before.secret, old, 1..=VERSION_MAX).expect("the secret is right");
    early.status().expect("its epoch is the current one");

    home.call(["transfer", &sandbox, "--to", "run_b", "--run", "run_a"]).succeed();
    let mut late = reach(&home, &before, &before.secret, old, 1..=VERSION_MAX).expect("the secret is right");

    assert!(refused_as_stale(early.status()), "a connection from before the hand-over");
    assert!(refused_as_stale(late.status()), "a connection from after it");
    assert!(refused_as_stale(late.fence()), "a fence does not go back");
    let now = record(&home, &sandbox).lease.epoch().0;
    late.act_under(Epoch(now));
    late.status().expect("the new epoch is good");
}

#[test]
fn without_the_boot_secret_there_is_no_answer() {
    requires!(native);
    let home = Home::new();
    let sandbox = home.open();
    let record = record(&home, &sandbox);
    let epoch = record.lease.epoch().0;

    for wrong in [Secret([0; 32]), Secret(record.secret.0.map(|byte| byte ^ 1))] {
        let refused = reach(&home, &record, &wrong, epoch, 1..=VERSION_MAX);
        assert!(matches!(refused, Err(Failure::Refused(Refusal::WrongSecret))), "{refused:?}");
    }

    home.exec(&sandbox, ["true"]).succeed();
}

#[test]
fn a_newer_binary_speaks_the_older_version_with_a_running_guest() {
    requires!(native);
    let home = Home::new();
    let sandbox = home.open();
    let record = record(&home, &sandbox);
    let epoch = record.lease.epoch().0;

    let mut newer =
        reach(&home, &record, &record.secret, epoch, 1..=VERSION_MAX + 7).expect("there is a common version");
    let stranger = reach(&home, &record, &record.secret, epoch, VERSION_MAX + 1..=VERSION_MAX + 7);

    assert_eq!(newer.welcome().version, VERSION_MAX);
    newer.status().expect("it works as ever");
    assert!(matches!(stranger, Err(Failure::Refused(Refusal::NoCommonVersion))), "{stranger:?}");
}
