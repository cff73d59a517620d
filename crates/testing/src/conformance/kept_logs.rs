//! What everything that keeps the output of closed sandboxes must do.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use serde_json::{Value, json};

use crate::sample;
use coracle_core::clock::Timestamp;
use coracle_core::ids::ExecId;
use coracle_core::{KeptExec, KeptLogs, Record};

/// A place where output is kept. Each opening is another process as far as it can tell.
pub trait Archive {
    fn open(&self, retention: Duration) -> Box<dyn KeptLogs>;
}

/// Runs the suite against the [`Archive`] that `$make()` returns, a fresh one for each test.
#[macro_export]
macro_rules! kept_log_conformance {
    ($make:expr) => {
        $crate::conformance_clauses!(
            $make,
            kept_log_contract,
            $crate::conformance::kept_logs,
            [
                what_was_kept_is_read_again_word_for_word,
                of_a_sandbox_without_output_there_is_nothing,
                what_is_written_again_takes_the_place_of_the_first,
                nothing_is_read_before_all_of_it_is_there,
                what_was_kept_for_long_enough_is_gone,
                a_sweep_removes_what_is_over_and_nothing_else,
                each_tenant_takes_its_own_room,
                without_a_time_nothing_is_kept,
            ]
        );
    };
}

const HOUR: Duration = Duration::from_secs(3600);

pub fn what_was_kept_is_read_again_word_for_word(archive: &impl Archive) {
    let (record, kept) = (sample::record(), [kept("b", "two\nlines \"ö\""), kept("a", "")]);
    archive.open(HOUR).write(&record, &kept, at(1), &|| {}).expect("writes");

    let other = archive.open(HOUR);

    let execs = other.execs(&record, at(2)).expect("looks");
    assert_eq!(execs, Some(vec![exec("b"), exec("a")]));
    let read = other.read(&record, &exec("b"), at(2)).expect("reads").expect("it is kept");
    assert_eq!(read, kept[0]);
    assert_eq!(read.read::<Value>().expect("an object")["text"], "two\nlines \"ö\"");
    assert_eq!(other.read(&record, &exec("c"), at(2)).expect("reads"), None);
}

pub fn of_a_sandbox_without_output_there_is_nothing(archive: &impl Archive) {
    let logs = archive.open(HOUR);
    let theirs = Record { tenant: Some(sample::tenant("other")), ..sample::record() };
    logs.write(&theirs, &[kept("a", "x")], at(1), &|| {}).expect("writes");

    let record = sample::record();

    assert_eq!(logs.execs(&record, at(1)).expect("looks"), None);
    assert_eq!(logs.read(&record, &exec("a"), at(1)).expect("reads"), None);
}

pub fn what_is_written_again_takes_the_place_of_the_first(archive: &impl Archive) {
    let (logs, record) = (archive.open(HOUR), sample::record());
    logs.write(&record, &[kept("a", "first"), kept("b", "first")], at(1), &|| {}).expect("writes");

    logs.write(&record, &[kept("a", "second")], at(2), &|| {}).expect("writes");

    assert_eq!(logs.execs(&record, at(2)).expect("looks"), Some(vec![exec("a")]));
    let read = logs.read(&record, &exec("a"), at(2)).expect("reads");
    assert_eq!(read, Some(kept("a", "second")));
}

pub fn nothing_is_read_before_all_of_it_is_there(archive: &impl Archive) {
    let (logs, record) = (archive.open(HOUR), sample::record());
    let crash = || {
        assert_eq!(archive.open(HOUR).execs(&record, at(1)).expect("looks"), None, "it was seen half way");
        std::panic::resume_unwind(Box::new("killed"));
    };

    let killed =
        catch_unwind(AssertUnwindSafe(|| logs.write(&record, &[kept("a", "x")], at(1), &crash))).is_err();

    assert!(killed, "the hook is called");
    assert_eq!(archive.open(HOUR).execs(&record, at(1)).expect("looks"), None);
    // Whoever comes after does it again.
    archive.open(HOUR).write(&record, &[kept("a", "x")], at(2), &|| {}).expect("writes");
    assert_eq!(archive.open(HOUR).execs(&record, at(2)).expect("looks"), Some(vec![exec("a")]));
}

pub fn what_was_kept_for_long_enough_is_gone(archive: &impl Archive) {
    let (logs, record) = (archive.open(HOUR), sample::record());
    logs.write(&record, &[kept("a", "x")], at(1), &|| {}).expect("writes");

    let kept_at = |minutes| logs.execs(&record, at(minutes)).expect("looks").is_some();

    // Before anybody has swept.
    assert!(kept_at(1) && kept_at(60) && !kept_at(61));
    assert_eq!(logs.read(&record, &exec("a"), at(61)).expect("reads"), None);
}

pub fn a_sweep_removes_what_is_over_and_nothing_else(archive: &impl Archive) {
    let (logs, old, new) = (archive.open(HOUR), sample::record(), sample::record());
    logs.write(&old, &[kept("a", "x")], at(1), &|| {}).expect("writes");
    logs.write(&new, &[kept("a", "x")], at(30), &|| {}).expect("writes");

    let swept = [at(2), at(61), at(61)].map(|now| archive.open(HOUR).sweep(now).expect("sweeps"));

    assert_eq!(swept, [0, 1, 0]);
    assert!(logs.execs(&new, at(61)).expect("looks").is_some());
    // Not even by a clock that goes back.
    assert_eq!(logs.execs(&old, at(2)).expect("looks"), None);
}

pub fn each_tenant_takes_its_own_room(archive: &impl Archive) {
    let logs = archive.open(HOUR);
    let of = |tenant: Option<&str>| Record { tenant: tenant.map(sample::tenant), ..sample::record() };
    let text = "x".repeat(1000);
    for record in [of(Some("mine")), of(Some("mine")), of(Some("min")), of(None)] {
        logs.write(&record, &[kept("a", &text)], at(1), &|| {}).expect("writes");
    }

    let taken = |tenant: &str| logs.taken_by(&sample::tenant(tenant));

    assert!((2000..3000).contains(&taken("mine")), "{}", taken("mine"));
    assert!((1000..2000).contains(&taken("min")), "{}", taken("min"));
    assert_eq!(taken("nobody"), 0);
}

pub fn without_a_time_nothing_is_kept(archive: &impl Archive) {
    assert!(archive.open(HOUR).is_on());
    assert!(!archive.open(Duration::ZERO).is_on());
}

fn kept(id: &str, text: &str) -> KeptExec {
    KeptExec::of(&json!({ "exec_id": id, "text": text })).expect("an object with an id")
}

fn exec(id: &str) -> ExecId {
    id.parse().expect("an id")
}

/// Returns a moment of observed time.
fn at(minutes: u64) -> Timestamp {
    Timestamp::from_millis(minutes * 60_000)
}
