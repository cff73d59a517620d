//! `cargo xtask ci`: what has to hold before a change lands. No need may be missing.

use anyhow::{Result, bail};

use crate::{cargo, test, tidy};

/// The needs a machine of ours has to have.
const REQUIRED: &str = "native";

/// Checks, then tests. A missing tool is a failure here.
pub fn run() -> Result<()> {
    for tool in ["fmt", "clippy"] {
        if !cargo::has(tool) {
            bail!("`cargo {tool}` is not installed; `rustup component add` brings it");
        }
    }
    tidy::run()?;
    if std::env::var_os("CORACLE_REQUIRE").is_some() {
        return test::run(&[]);
    }
    // The tests read it from their environment; starting this program again sets it without touching our own.
    cargo::run(cargo::cargo(["xtask", "test"]).env("CORACLE_REQUIRE", REQUIRED))
}
