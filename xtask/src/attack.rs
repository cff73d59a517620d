//! `cargo xtask attack`: every row of the catalogue of attacks, and one report of what held.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use crate::{cargo, packages};

/// What can become of a row, as the tests write it.
const VERDICTS: [&str; 4] = ["held", "broken", "vacuous", "not applicable"];

/// Builds both binaries, runs the suite, prints the report, and fails if a starred row is broken or proves nothing.
pub fn run(arguments: &[String]) -> Result<()> {
    let mut command =
        cargo::cargo(["test", "--package", "coracle-tests", "--test", "attack", "--no-fail-fast"]);
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
    let failed: Vec<&str> =
        rows.values().filter(|row| fails(row)).filter_map(|row| row["id"].as_str()).collect();
    match failed.is_empty() {
        true => outcome,
        false => bail!("starred rows do not hold: {}", failed.join(", ")),
    }
}

/// Builds the binary, and the one whose walls can be left out.
pub fn binaries(target: &Path) -> Result<(std::path::PathBuf, std::path::PathBuf)> {
    cargo::run(&mut cargo::cargo(["build", "--package", "coracle"]))?;
    let weak = target.join("weak");
    let mut build = cargo::cargo(["build", "--package", "coracle", "--features", "weaken", "--target-dir"]);
    cargo::run(build.arg(&weak))?;
    Ok((target.join("debug/coracle"), weak.join("debug/coracle")))
}

/// Returns the rows by their ids, as the tests wrote them down.
fn read(path: &Path) -> Result<BTreeMap<String, Value>> {
    let text = std::fs::read_to_string(path).context("no row was written down")?;
    let rows = text.lines().map(|line| {
        let row: Value = serde_json::from_str(line).context("a row is not JSON")?;
        Ok((row["id"].as_str().unwrap_or_default().to_owned(), row))
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
    let (id, verdict, paths) = (text("id"), text("verdict"), list("paths"));
    println!("{id:7}{star} {verdict:15} {paths:31} {}", text("title"));
    if !text("reason").is_empty() {
        println!("{:25}{}", "", text("reason"));
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
