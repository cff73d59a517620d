//! The library in a foreign program: a home of its own, and nothing of ours around it.
//!
//! `tests/` tests sandboxes, with the binary. These tests need none, so they run on every machine.

use coracle::{Config, Coracle, Kind, RunId, SandboxId};
use serde_json::json;

/// Opens a home that keeps no spares.
fn opened(home: &std::path::Path) -> Coracle {
    let config = Config { spares: Some(0), ..Config::at(home) };
    Coracle::open(config).expect("a home can be made")
}

#[test]
fn a_home_is_made_where_it_is_configured_and_opened_again() {
    let directory = tempfile::tempdir().expect("a directory");
    let home = directory.path().join("below/home");

    let first = opened(&home).list().expect("it can be read");
    let again = opened(&home).list().expect("it can be read");

    assert!(home.is_dir() && first.is_empty() && again.is_empty(), "{first:?} {again:?}");
}

#[test]
fn missing_and_invalid_things_differ_by_kind() {
    let directory = tempfile::tempdir().expect("a directory");
    let coracle = opened(directory.path());
    let unknown: SandboxId = "sbx_01m7hsma1nv8r7k3ng2ct513te".parse().expect("an id");
    let run: RunId = "run_other".parse().expect("a run");

    let missing = coracle.acting_as(run).claim(&unknown).expect_err("it was never made");
    let nonsense = coracle.call("sandbox_open", json!({"spec": 3})).expect_err("that is no spec");

    assert_eq!((missing.kind, nonsense.kind), (Kind::NotFound, Kind::Invalid));
}
