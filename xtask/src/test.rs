//! `cargo xtask test`: everything, and at the end what was skipped and why.

use std::collections::BTreeMap;
use std::num::NonZero;
use std::path::Path;

use anyhow::{Result, bail};

use crate::suites::{self, Environment};
use crate::{attack, cargo, packages};

/// Installs what the tests need, builds the binary they drive, runs them all.
pub fn run(arguments: &[String]) -> Result<()> {
    let mut environment = Environment::default();
    let mut filter = Vec::new();
    for argument in arguments {
        match argument.as_str() {
            "--full" => environment.set("CORACLE_FULL", "1"),
            flag if flag.starts_with('-') => {
                bail!("unknown flag `{flag}`; `test` takes `--full` and a filter")
            }
            words => filter.push(words.to_owned()),
        }
    }
    packages::install(packages::TEST);

    let target = cargo::target_directory()?;
    let (binary, weak) = attack::binaries(&target)?;
    let skips = target.join("skipped-tests");
    let _ = std::fs::remove_file(&skips);
    environment.set("CORACLE_BIN", binary);
    environment.set("CORACLE_WEAK_BIN", weak);
    environment.set("CORACLE_SKIPS", &skips);
    // What failed says why; pages of frames hide it.
    environment.set("RUST_BACKTRACE", "0");
    // Most of them wait for a process most of the time.
    if std::env::var_os("RUST_TEST_THREADS").is_none() {
        let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
        environment.set("RUST_TEST_THREADS", (2 * cores).to_string());
    }
    let outcome = suites::run(&environment, &filter);
    let mut examples = cargo::cargo(["test", "--workspace", "--doc", "--quiet"]);
    let examples = cargo::run(environment.apply(&mut examples).arg("--").args(&filter));
    report(&skips);
    outcome.and(examples)
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
