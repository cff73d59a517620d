//! `cargo xtask bench`: installs the peers where it can, then measures with optimised builds.

use anyhow::Result;

use crate::{cargo, packages};

/// Runs the benchmark; the arguments are its own.
pub fn run(arguments: &[String]) -> Result<()> {
    packages::install(packages::TEST);
    packages::install(packages::BENCH);
    cargo::run(&mut cargo::cargo(["build", "--release", "--package", "coracle"]))?;
    let binary = cargo::target_directory()?.join("release/coracle");
    cargo::run(
        cargo::cargo(["run", "--release", "--package", "coracle-bench", "--"])
            .args(arguments)
            .env("CORACLE_BIN", binary),
    )
}
