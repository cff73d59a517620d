//! `cargo xtask bench --against REVISION`: the benchmark of an older revision and this one's, in turns.
//!
//! A machine is never the same for two minutes. So each turn measures both, which of the two is first changes with every turn,
//! and each number is divided by what its own run took to start a program (`base`).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::cargo;

/// Enough that the median of the turns is not one turn's.
const TURNS: usize = 7;
/// Samples of each case in a turn.
const ROUNDS: &str = "30";
/// What goals P1, P3 and P5 speak of, by the library; P2 and the rest, by the doors.
const CASES: [&str; 5] =
    ["coracle library run", "coracle exec", "coracle write 1 KiB", "coracle cli", "coracle http"];
/// Cases that drive a binary from outside. This revision's benchmark measures both binaries, so that cases are compared which
/// the older benchmark does not have.
const DRIVEN: [&str; 2] = ["coracle cli", "coracle http"];
/// How much slower counts as worse: what two builds of the same revision differ by.
const WORSE: f64 = 1.1;

/// A case and its pace, and what it took in times of `base`, a number a turn.
type Ratios = BTreeMap<(String, String), Vec<f64>>;

/// Builds both revisions, measures, prints the comparison, and fails if a case is slower than before.
pub fn run(revision: &str, cases: &[String]) -> Result<()> {
    let cases: Vec<&str> = match cases.is_empty() {
        true => CASES.to_vec(),
        false => cases.iter().map(String::as_str).collect(),
    };
    let target = cargo::target_directory()?;
    let old = Build::of(revision, &target)?;
    let new = Build { directory: cargo::root(), target };
    new.make()?;
    let (mut before, mut now) = (Ratios::new(), Ratios::new());
    for turn in 0..TURNS {
        for case in &cases {
            let mut sides = [(&old, &mut before), (&new, &mut now)];
            if turn % 2 == 1 {
                sides.reverse();
            }
            for (build, ratios) in sides {
                let driven = DRIVEN.iter().any(|driven| case.contains(driven));
                let bench = if driven { &new } else { build }.release("coracle-bench");
                build.measure(&bench, case, ratios)?;
            }
        }
        println!("Turn {} of {TURNS} is over.", turn + 1);
    }
    judge(&before, &now)
}

/// A revision and where it is built.
struct Build {
    directory: PathBuf,
    target: PathBuf,
}

impl Build {
    /// Clones and builds an older revision of the project.
    fn of(revision: &str, target: &Path) -> Result<Self> {
        let directory = target.join("against");
        if !directory.exists() {
            let clone = ["clone", "--quiet", "--shared", "--no-checkout"];
            cargo::run(Command::new("git").args(clone).arg(cargo::root()).arg(&directory))?;
        }
        let found = Command::new("git").current_dir(cargo::root()).args(["rev-parse", revision]).output()?;
        ensure!(found.status.success(), "git knows no revision `{revision}`");
        let commit = String::from_utf8(found.stdout).context("git names a commit")?;
        let checkout = ["checkout", "--quiet", "--force", "--detach", commit.trim()];
        cargo::run(Command::new("git").current_dir(&directory).args(checkout))?;
        let build = Self { target: directory.join("target"), directory };
        build.make()?;
        Ok(build)
    }

    fn make(&self) -> Result<()> {
        // The binary was the library's once.
        let package = if self.directory.join("crates/cli").exists() { "coracle-cli" } else { "coracle" };
        let words = ["build", "--release", "--package", package, "--package", "coracle-bench"];
        cargo::run(cargo::cargo(words).current_dir(&self.directory).arg("--target-dir").arg(&self.target))
    }

    /// Returns the path of a program of this build.
    fn release(&self, program: &str) -> PathBuf {
        self.target.join("release").join(program)
    }

    /// Measures the cases whose name holds a word by a benchmark program, and adds what they took.
    fn measure(&self, bench: &Path, case: &str, ratios: &mut Ratios) -> Result<()> {
        let file = self.target.join("against.json");
        let mut bench = Command::new(bench);
        bench.current_dir(&self.directory).env("CORACLE_BIN", self.release("coracle"));
        let output = bench.args(["--rounds", ROUNDS, case, "--json"]).arg(&file).output()?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let report: Value = serde_json::from_slice(&std::fs::read(&file)?)?;
        let measured = report["cases"].as_array().context("the report has no cases")?;
        let base = |pace: &Value| {
            let of_pace = measured.iter().find(|one| one["case"] == "base" && one["pace"] == *pace);
            of_pace.and_then(|one| one["median_ms"].as_f64())
        };
        for one in measured.iter().filter(|one| one["case"] != "base") {
            let (Some(took), Some(base)) = (one["median_ms"].as_f64(), base(&one["pace"])) else { continue };
            let text = |field: &str| one[field].as_str().unwrap_or_default().to_owned();
            ratios.entry((text("case"), text("pace"))).or_default().push(took / base);
        }
        Ok(())
    }
}

/// Prints both medians of each case, and fails if one is worse.
fn judge(before: &Ratios, now: &Ratios) -> Result<()> {
    println!("\n{:<34} {:>5} {:>12} {:>12} {:>9}", "case", "pace", "before, base", "now, base", "now/before");
    let mut worse = Vec::new();
    for ((case, pace), now) in now {
        let Some(before) = before.get(&(case.clone(), pace.clone())) else { continue };
        let (before, now) = (median(before), median(now));
        let change = now / before;
        println!("{case:<34} {pace:>5} {before:>12.2} {now:>12.2} {change:>9.2}");
        // Peers and files are measured beside ours; they have no revision.
        if change > WORSE && case.starts_with("coracle") {
            worse.push(format!("{case} ({pace})"));
        }
    }
    match worse.is_empty() {
        true => Ok(()),
        false => bail!("slower than before: {}", worse.join(", ")),
    }
}

fn median(numbers: &[f64]) -> f64 {
    let mut sorted = numbers.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ratios(case: &str, took: &[f64]) -> Ratios {
        Ratios::from([((case.to_owned(), "hot".to_owned()), took.to_vec())])
    }

    #[test]
    fn a_case_that_got_slower_is_named_and_an_outlier_is_not() {
        let before = ratios("coracle exec", &[1.5, 1.6, 1.4]);

        let slower =
            judge(&before, &ratios("coracle exec", &[1.8, 1.9, 1.8])).map_err(|error| error.to_string());
        let noisy = judge(&before, &ratios("coracle exec", &[1.5, 9.0, 1.5]));

        assert_eq!(slower, Err("slower than before: coracle exec (hot)".to_owned()));
        assert!(noisy.is_ok());
    }
}
