//! The result of each row, written for `cargo xtask attack`.

use std::io::Write;

use serde_json::json;

/// Names the file the report is written to.
pub const VARIABLE: &str = "CORACLE_ATTACK_REPORT";

/// What became of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// The walls hold, and without them the attack succeeds.
    Held,
    /// The attack succeeds.
    Broken,
    /// It succeeds nowhere, so it proves nothing.
    Vacuous,
    NotApplicable,
}

impl std::fmt::Display for Verdict {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Held => "held",
            Self::Broken => "broken",
            Self::Vacuous => "vacuous",
            Self::NotApplicable => "not applicable",
        })
    }
}

/// One row as it is written down.
#[derive(Debug)]
pub struct Line {
    pub id: &'static str,
    pub backend: &'static str,
    pub starred: bool,
    pub title: &'static str,
    pub paths: Vec<&'static str>,
    pub twin: Vec<&'static str>,
    pub verdict: Verdict,
    pub reason: String,
    pub millis: u128,
}

impl Line {
    /// Appends it to the file [`VARIABLE`] names, if it names one.
    pub fn write(&self) {
        let Some(path) = std::env::var_os(VARIABLE) else { return };
        let line = json!({
            "id": self.id, "backend": self.backend, "starred": self.starred, "title": self.title, "paths": self.paths, "twin": self.twin,
            "verdict": self.verdict.to_string(), "reason": self.reason, "millis": self.millis as u64,
        });
        let file = std::fs::OpenOptions::new().create(true).append(true).open(path);
        // One write, so that lines of tests that run at once do not mix.
        let written = file.and_then(|mut file| file.write_all(format!("{line}\n").as_bytes()));
        written.expect("the report can be written");
    }
}
