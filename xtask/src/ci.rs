//! `cargo xtask ci`: what has to hold before a change lands. No need may be missing.

use anyhow::{Result, bail};

use crate::{cargo, test, tidy};

/// Which needs must be met: every one. A test that cannot run here has shown nothing.
const REQUIRED: &str = "all";

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_script_of_ci_requires_the_same() {
        let script = std::fs::read_to_string(cargo::root().join(".ci/run")).expect("the script of CI");

        assert!(script.contains(&format!("${{CORACLE_REQUIRE-{REQUIRED}}}")), "{script}");
    }
}
