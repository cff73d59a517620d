//! The numbers for people, and the same for machines.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::cases::{Absent, name};
use crate::goals::{Demand, GoalStatus, Verdict, base_pace};
use crate::machine::Machine;
use crate::measured::Measured;

/// A finished run of the benchmark.
pub struct Report<'a> {
    pub machine: &'a Machine,
    pub measured: &'a Measured,
    pub verdicts: &'a [Verdict],
    pub absent: &'a [Absent],
}

impl Report<'_> {
    /// Returns the medians of all cases, the amounts, then the goals.
    pub fn table(&self) -> String {
        [self.cases(), self.amounts(), self.goals()].concat()
    }

    fn cases(&self) -> String {
        let mut text = format!(
            "\n{:<34} {:>5} {:>10} {:>10} {:>9} {:>5}\n",
            "case", "pace", "median ms", "p95 ms", "x base", "n"
        );
        for ((case, pace), samples) in self.measured.samples() {
            let base = self.measured.median((name::BASE, base_pace(*pace))).unwrap_or(f64::NAN);
            let (median, p95, number) = (samples.median(), samples.percentile(95), samples.len());
            let (pace, times) = (pace.name(), median / base);
            let _ =
                writeln!(text, "{case:<34} {pace:>5} {median:>10.3} {p95:>10.3} {times:>9.2} {number:>5}");
        }
        text
    }

    fn amounts(&self) -> String {
        let mut text = String::new();
        if self.measured.amounts().next().is_some() {
            let _ = writeln!(text, "\n{:<44} {:>10}", "amount", "is");
        }
        for (name, amount) in self.measured.amounts() {
            let _ = writeln!(text, "{name:<44} {:>10.0} {}", amount.value, amount.unit.name());
        }
        text
    }

    fn goals(&self) -> String {
        let mut text = format!("\n{:<10} {:<62} {:>9} {:>17}  verdict\n", "goal", "of", "is", "goal is");
        for Verdict { goal, number, outcome } in self.verdicts {
            let (subject, limit) = (goal.demand.subject(), goal.demand.limit());
            let number = number.map_or("-".to_owned(), |number| format!("{number:.3}"));
            let note = if goal.status == GoalStatus::Reported { " (reported)" } else { "" };
            let _ = writeln!(
                text,
                "{:<10} {subject:<62} {number:>9} {limit:>17}  {}{note}",
                goal.id,
                outcome.name()
            );
        }
        text
    }

    /// Writes everything as JSON to the file, or to one of its own below `bench/results`, and returns where.
    pub fn write(&self, file: Option<&Path>) -> Result<PathBuf> {
        let path = match file {
            Some(file) => file.to_owned(),
            None => dated_file()?,
        };
        let text = serde_json::to_string_pretty(&self.document())?;
        std::fs::write(&path, text).with_context(|| format!("could not write `{}`", path.display()))?;
        Ok(path)
    }

    fn document(&self) -> Value {
        let cases = self.measured.samples().map(|((case, pace), samples)| {
            json!({"case": case, "pace": pace.name(), "median_ms": samples.median(),
                "p95_ms": samples.percentile(95), "samples": samples.len()})
        });
        let amounts = self
            .measured
            .amounts()
            .map(|(name, amount)| json!({"name": name, "value": amount.value, "unit": amount.unit.name()}));
        let absent = self.absent.iter().map(|(name, reason)| json!({"case": name, "reason": reason}));
        json!({"machine": self.machine.document(), "cases": cases.collect::<Vec<_>>(),
            "amounts": amounts.collect::<Vec<_>>(), "absent": absent.collect::<Vec<_>>(),
            "goals": self.verdicts.iter().map(judged).collect::<Vec<_>>()})
    }
}

/// Lists the cases without a measurement, once for each reason.
pub fn absence(absent: &[Absent]) -> String {
    let groups = absent.chunk_by(|(_, one), (_, other)| one == other);
    let lines = groups.map(|group| {
        let names: Vec<&str> = group.iter().map(|(name, _)| *name).collect();
        format!("Not measured: {}. Reason: {}.\n", names.join(", "), group[0].1)
    });
    lines.collect()
}

fn judged(verdict: &Verdict) -> Value {
    let Verdict { goal, number, outcome } = verdict;
    let mut line = json!({"goal": goal.id, "subject": goal.demand.subject(), "is": number,
        "verdict": outcome.name(), "due": goal.status == GoalStatus::Due});
    let (bound, limit) = match goal.demand {
        Demand::Ratio { at_most, .. } => ("ratio_at_most", at_most),
        Demand::Median { at_most, .. } => ("ms_at_most", at_most.as_secs_f64() * 1e3),
        Demand::AtMost { limit, .. } => ("at_most", limit),
        Demand::AtLeast { limit, .. } => ("at_least", limit),
    };
    line[bound] = json!(limit);
    line
}

fn dated_file() -> Result<PathBuf> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("results");
    std::fs::create_dir_all(&directory)
        .with_context(|| format!("could not make `{}`", directory.display()))?;
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    Ok(directory.join(format!("{seconds}.json")))
}
