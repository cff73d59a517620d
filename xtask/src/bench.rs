//! `cargo xtask bench`: installs the peers where it can, then measures with optimised builds.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::{against, cargo, packages};

/// The peers that are Python libraries, as they were when the goals were set.
const LIBRARIES: [&str; 2] = ["autogen-ext[docker]==0.7.5", "llm-sandbox[docker]==0.3.46"];

/// Runs the benchmark; the arguments are its own, but for `--against`. Only `--peers` makes this install what takes minutes.
pub fn run(arguments: &[String]) -> Result<()> {
    packages::install(packages::TEST);
    packages::install(packages::BENCH);
    if let Some((flag, rest)) = arguments.split_first()
        && flag == "--against"
    {
        let (revision, cases) = rest.split_first().context("`--against` needs a revision")?;
        return against::run(revision, cases);
    }
    let target = cargo::target_directory()?;
    let python = match arguments.iter().any(|word| word == "--peers") {
        true => install_peers(&target),
        false => None,
    };
    // Both at once: apart they would be built with other features of the same dependencies, one after the other.
    cargo::run(&mut cargo::cargo([
        "build",
        "--release",
        "--package",
        "coracle-cli",
        "--package",
        "coracle-bench",
    ]))?;
    let mut bench = Command::new(target.join("release/coracle-bench"));
    bench.current_dir(cargo::root()).args(arguments).env("CORACLE_BIN", target.join("release/coracle"));
    if let Some(python) = python {
        bench.env("CORACLE_BENCH_PYTHON", python);
    }
    cargo::run(&mut bench)
}

/// Installs the engines and, in an environment of their own, the libraries; returns the Python that has these.
fn install_peers(target: &Path) -> Option<PathBuf> {
    packages::install(packages::PEERS);
    let environment = target.join("bench-peers");
    let python = environment.join("bin/python3");
    match install_libraries(&environment, &python) {
        Ok(()) => Some(python),
        Err(error) => {
            println!("Could not install the libraries: {error:#}. Going on without.");
            None
        }
    }
}

fn install_libraries(environment: &Path, python: &Path) -> Result<()> {
    if !python.exists() {
        cargo::run(Command::new("/usr/bin/python3").args(["-m", "venv"]).arg(environment))?;
    }
    // Quick where they are there already.
    cargo::run(Command::new(python).args(["-m", "pip", "install", "--quiet"]).args(LIBRARIES))
}
