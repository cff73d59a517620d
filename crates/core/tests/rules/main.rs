//! Property and unit tests of the pure rules. `CORACLE_FULL=1` runs a hundred times as many cases.

mod ceiling;
mod images;
mod input;
mod lease;
mod lifecycle;
mod mounts;
mod network;
mod observed;
mod reconcile;
mod runtimes;
mod selection;
mod tenants;
mod tokens;

use proptest::test_runner::Config;

/// Few enough for every build; the nightly run does the full number.
fn cases() -> Config {
    let full = std::env::var_os("CORACLE_FULL").is_some_and(|value| value == "1");
    Config { cases: if full { 25_600 } else { 256 }, failure_persistence: None, ..Config::default() }
}
