//! `cargo xtask test`: everything, and at the end what was skipped and why.

use std::collections::BTreeMap;
use std::num::NonZero;
use std::path::Path;

use anyhow::{Result, bail};

use crate::{attack, cargo, packages};

/// Installs what the tests need, builds the binary they drive, runs them all.
pub fn run(arguments: &[String]) -> Result<()> {
    let mut command = cargo::cargo(["test", "--workspace", "--no-fail-fast"]);
    for argument in arguments {
        match argument.as_str() {
            "--full" => command.env("CORACLE_FULL", "1"),
            flag if flag.starts_with('-') => {
                bail!("unknown flag `{flag}`; `test` takes `--full` and a filter")
            }
            filter => command.arg(filter),
        };
    }
    packages::install(packages::TEST);

    let target = cargo::target_directory()?;
    let (binary, weak) = attack::binaries(&target)?;
    let skips = target.join("skipped-tests");
    let _ = std::fs::remove_file(&skips);
    command.env("CORACLE_BIN", binary).env("CORACLE_WEAK_BIN", weak).env("CORACLE_SKIPS", &skips);
    // Most of them wait for a process most of the time.
    if std::env::var_os("RUST_TEST_THREADS").is_none() {
        let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
        command.env("RUST_TEST_THREADS", (2 * cores).to_string());
    }
    let outcome = cargo::run(&mut command);
    report(&skips);
    outcome
}

/// Prints what the tests wrote down as they skipped: one line each, need, reason and test, parted by tabs.
fn report(skips: &Path) {
    let text = std::fs::read_to_string(skips).unwrap_or_default();
    let mut reasons: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (reason, test) in text.lines().filter_map(|line| line.rsplit_once('\t')) {
        reasons.entry(reason).or_default().push(test);
    }
    if reasons.is_empty() {
        println!("No test was skipped.");
    }
    for (reason, tests) in reasons {
        println!("Skipped {} tests that need {}:", tests.len(), reason.replace('\t', ": "));
        tests.iter().for_each(|test| println!("  {test}"));
    }
}
