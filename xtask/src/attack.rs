//! `cargo xtask attack`: every row of the catalogue of attacks, and one report of what held.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use crate::{cargo, packages};

/// What can become of a row, as the tests write it.
const VERDICTS: [&str; 4] = ["held", "broken", "vacuous", "not applicable"];

/// Builds both binaries, runs the suite, prints the report, and fails if a starred row is broken or proves nothing.
pub fn run(arguments: &[String]) -> Result<()> {
    let mut command = cargo::cargo(["test", "--workspace", "--no-fail-fast"]);
    command.args(["--test", "attack", "--test", "attack_docker"]);
    for argument in arguments {
        match argument.as_str() {
            "--full" => command.env("CORACLE_FULL", "1"),
            flag if flag.starts_with('-') => {
                bail!("unknown flag `{flag}`; `attack` takes `--full` and a filter")
            }
            filter => command.args(["--", filter]),
        };
    }
    packages::install(packages::TEST);
    let target = cargo::target_directory()?;
    let (binary, weak) = binaries(&target)?;
    let lines = target.join("attack-rows");
    let _ = std::fs::remove_file(&lines);
    command.env("CORACLE_BIN", binary).env("CORACLE_WEAK_BIN", weak).env("CORACLE_ATTACK_REPORT", &lines);
    // A row that does not hold fails its test, too; the report says more than that.
    let outcome = cargo::run(&mut command);
    let rows = read(&lines)?;
    rows.values().for_each(print);
    let counts =
        VERDICTS.map(|verdict| (verdict, rows.values().filter(|row| row["verdict"] == verdict).count()));
    write(&target.join("attack.json"), &rows, &counts)?;
    let summary = counts.map(|(verdict, count)| format!("{count} {verdict}")).join(", ");
    println!("\n{} rows: {summary}. Rows of other backends and of parts to come are not listed.", rows.len());
    by_backend(&rows);
    let failed: Vec<&str> =
        rows.iter().filter(|(_, row)| fails(row)).map(|(name, _)| name.as_str()).collect();
    match failed.is_empty() {
        true => outcome,
        false => bail!("starred rows do not hold: {}", failed.join(", ")),
    }
}

/// Builds the twin, whose walls a test can leave out, and the binary.
///
/// Into one directory, so that what both are made of is built once; there the last one has the name, so the first is
/// copied away. By way of a test of the binary's package in the whole workspace: that is how the suites are built, and
/// asked for by itself its dependencies would have other features, and be built once more for them.
pub fn binaries(target: &Path) -> Result<(PathBuf, PathBuf)> {
    let (binary, weak) = (target.join("debug/coracle"), target.join("weak/debug/coracle"));
    let build = ["test", "--workspace", "--no-run", "--test", "version"];
    cargo::run(cargo::cargo(build).args(["--features", "coracle-cli/weaken"]))?;
    std::fs::create_dir_all(target.join("weak/debug"))?;
    std::fs::copy(&binary, &weak).context("could not keep the binary whose walls can be left out")?;
    cargo::run(&mut cargo::cargo(build))?;
    Ok((binary, weak))
}

/// Prints what became of the rows of each backend.
fn by_backend(rows: &BTreeMap<String, Value>) {
    let backends: BTreeSet<&str> = rows.values().filter_map(|row| row["backend"].as_str()).collect();
    for backend in backends {
        let of = |verdict: &str| {
            let these = |row: &&Value| row["backend"] == backend && row["verdict"] == verdict;
            format!("{} {verdict}", rows.values().filter(these).count())
        };
        println!("  {backend}: {}", VERDICTS.map(of).join(", "));
    }
}

/// Returns the rows by their ids and backends, as the tests wrote them down.
fn read(path: &Path) -> Result<BTreeMap<String, Value>> {
    let text = std::fs::read_to_string(path).context("no row was written down")?;
    let rows = text.lines().map(|line| {
        let row: Value = serde_json::from_str(line).context("a row is not JSON")?;
        let text = |name: &str| row[name].as_str().unwrap_or_default();
        Ok((format!("{} {}", text("id"), text("backend")), row))
    });
    rows.collect()
}

fn print(row: &Value) {
    let text = |name: &str| row[name].as_str().unwrap_or_default();
    let list = |name: &str| {
        let words = row[name].as_array().into_iter().flatten().filter_map(Value::as_str);
        words.collect::<Vec<_>>().join(",")
    };
    let star = if row["starred"] == true { "*" } else { " " };
    let (id, backend, verdict, paths) = (text("id"), text("backend"), text("verdict"), list("paths"));
    println!("{id:7}{star} {backend:7} {verdict:15} {paths:31} {}", text("title"));
    if !text("reason").is_empty() {
        println!("{:33}{}", "", text("reason"));
    }
}

fn write(path: &Path, rows: &BTreeMap<String, Value>, counts: &[(&str, usize)]) -> Result<()> {
    let counts: serde_json::Map<_, _> =
        counts.iter().map(|(verdict, count)| ((*verdict).to_owned(), json!(count))).collect();
    let report = json!({"counts": counts, "rows": rows.values().collect::<Vec<_>>()});
    std::fs::write(path, format!("{report:#}\n"))
        .with_context(|| format!("could not write `{}`", path.display()))?;
    println!("\nThe report is in `{}`.", path.display());
    Ok(())
}

/// Tells whether a row keeps a release from being made.
fn fails(row: &Value) -> bool {
    row["starred"] == true && (row["verdict"] == "broken" || row["verdict"] == "vacuous")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_starred_rows_that_are_broken_or_vacuous_fail() {
        let row = |starred: bool, verdict: &str| json!({"starred": starred, "verdict": verdict});

        assert!(fails(&row(true, "broken")) && fails(&row(true, "vacuous")));
        assert!(
            !fails(&row(true, "held"))
                && !fails(&row(true, "not applicable"))
                && !fails(&row(false, "broken"))
        );
    }
}
