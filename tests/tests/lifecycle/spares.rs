//! Spares, made by the library while it is open, or by `coracle spares` between calls of the command line.

mod between_calls;
mod taint;
mod warm;

use std::time::Duration;

use coracle::{Config, Coracle};
use coracle_tests::{Home, eventually};

/// Making a few sandboxes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

fn library(home: &Home) -> Coracle {
    Coracle::open(Config::at(home.path())).expect("a home can be opened")
}

/// Waits until a sandbox is there to be taken.
#[track_caller]
fn await_spare(coracle: &Coracle) {
    eventually(PATIENCE, || coracle.spares() > 0).expect("a spare is made");
}
