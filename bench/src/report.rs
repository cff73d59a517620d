//! The numbers for people, and the same for machines.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::case::Pace;
use crate::cases::{Absent, name};
use crate::goals::{Standing, Verdict};
use crate::schedule::Measured;

/// Returns the medians of all cases, then the goals.
pub fn table(measured: &Measured, verdicts: &[Verdict]) -> String {
    let mut text = format!(
        "\n{:<28} {:>5} {:>10} {:>10} {:>9} {:>5}\n",
        "case", "pace", "median ms", "p95 ms", "x base", "n"
    );
    for ((case, pace), samples) in measured {
        let base = measured.get(&(name::BASE, base_pace(*pace))).map_or(f64::NAN, |base| base.median());
        let (median, p95) = (samples.median(), samples.percentile(95));
        let pace = pace.name();
        let _ = writeln!(
            text,
            "{case:<28} {pace:>5} {median:>10.3} {p95:>10.3} {:>9.2} {:>5}",
            median / base,
            samples.len()
        );
    }
    let _ = writeln!(text, "\n{:<10} {:<46} {:>8} {:>8}  verdict", "goal", "ratio", "is", "at most");
    for verdict in verdicts {
        let goal = verdict.goal;
        let what = format!("{} / {} ({})", goal.case, goal.against, goal.pace.name());
        let ratio = verdict.ratio.map_or("-".to_owned(), |ratio| format!("{ratio:.3}"));
        let note = if goal.standing == Standing::Reported { " (reported)" } else { "" };
        let outcome = verdict.outcome.name();
        let _ =
            writeln!(text, "{:<10} {what:<46} {ratio:>8} {:>8.3}  {outcome}{note}", goal.id, goal.at_most);
    }
    text
}

/// Writes everything as JSON below `bench/results` and returns where.
pub fn write(measured: &Measured, verdicts: &[Verdict], absent: &[Absent]) -> Result<PathBuf> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("results");
    std::fs::create_dir_all(&directory)
        .with_context(|| format!("could not make `{}`", directory.display()))?;
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let path = directory.join(format!("{seconds}.json"));
    let text = serde_json::to_string_pretty(&document(measured, verdicts, absent))?;
    std::fs::write(&path, text).with_context(|| format!("could not write `{}`", path.display()))?;
    Ok(path)
}

fn document(measured: &Measured, verdicts: &[Verdict], absent: &[Absent]) -> Value {
    let cases = measured.iter().map(|((case, pace), samples)| {
        json!({"case": case, "pace": pace.name(), "median_ms": samples.median(), "p95_ms": samples.percentile(95), "samples": samples.len()})
    });
    let goals = verdicts.iter().map(|verdict| {
        let goal = verdict.goal;
        json!({"goal": goal.id, "case": goal.case, "pace": goal.pace.name(), "against": goal.against, "at_most": goal.at_most,
            "ratio": verdict.ratio, "verdict": verdict.outcome.name(), "due": goal.standing == Standing::Due})
    });
    let absent = absent.iter().map(|(name, reason)| json!({"case": name, "reason": reason}));
    json!({"cases": cases.collect::<Vec<_>>(), "goals": goals.collect::<Vec<_>>(), "absent": absent.collect::<Vec<_>>(), "machine": machine()})
}

/// Returns what the numbers depend on.
fn machine() -> Value {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default().trim().to_owned();
    let cpus = std::thread::available_parallelism().map_or(0, |number| number.get());
    json!({"kernel": read("/proc/sys/kernel/osrelease"), "cpus": cpus, "load": load(), "architecture": std::env::consts::ARCH})
}

/// Returns how many processes wanted a CPU in the last minute. More than there are CPUs, and the numbers are noise.
pub fn load() -> f64 {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().and_then(|minute| minute.parse().ok()).unwrap_or(0.0)
}

/// Returns the pace of `base` a pace is compared with: idle ones with the idle one.
fn base_pace(pace: Pace) -> Pace {
    match pace {
        Pace::Hot => Pace::Hot,
        Pace::Gap | Pace::Own => Pace::Gap,
    }
}
