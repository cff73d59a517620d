//! How far an exec has come, in the words of the doors.

use std::time::Duration;

use coracle_core::duration::shown;
use coracle_core::exec::{LimitHit, Outcome, Truncation};
use coracle_wire as wire;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::guest::Gap;

/// Whether an exec has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    Running,
    Completed,
}

/// What is known of an exec now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Progress {
    pub status: Status,
    /// Null unless it exited by itself.
    pub exit_code: Option<i32>,
    /// Null while it runs.
    pub outcome: Option<Outcome>,
    pub duration_ms: u64,
    /// Some of the output was not kept, or is not in this answer.
    pub truncated: bool,
    pub truncation: Option<Truncation>,
    /// All that was written, kept or not.
    pub stdout_bytes: u64,
    pub stderr_bytes: u64,
    pub limits_hit: Vec<LimitHit>,
    /// How many processes the command left in the background that were ended with it; absent if there were none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_background: Option<u32>,
}

impl Progress {
    /// Puts the guest's words into ours.
    pub fn of(state: &wire::ExecState) -> Self {
        Self::with(state, state.ending.map(outcome))
    }

    /// Returns why it did not exit by itself, for people.
    pub fn complaint(&self) -> Option<String> {
        match self.outcome? {
            Outcome::Exited { .. } => None,
            Outcome::Signalled { signal } => Some(format!("killed by signal {signal}")),
            Outcome::OomKilled => Some("killed because it ran out of memory".to_owned()),
            Outcome::TimedOut => Some(format!("timed out after {}", self.rounded())),
            Outcome::Stopped => Some("stopped".to_owned()),
            Outcome::Lost => Some("the sandbox went away before it ended".to_owned()),
        }
    }

    /// Returns how long it ran, for people: from ten seconds on without milliseconds.
    fn rounded(&self) -> String {
        let ms = self.duration_ms;
        shown(Duration::from_millis(if ms < 10_000 { ms } else { ms - ms % 1000 }))
    }

    /// Returns how it ended, for people; nothing while it runs.
    pub fn ending(&self) -> Option<String> {
        match self.outcome? {
            Outcome::Exited { code } => Some(format!("exited with {code}")),
            _ => self.complaint(),
        }
    }

    /// Like `of`, for an exec whose guest is gone: an end that was not seen is `lost`.
    pub fn final_of(state: &wire::ExecState) -> Self {
        Self::with(state, Some(state.ending.map_or(Outcome::Lost, outcome)))
    }

    /// Returns what is told of an exec that has ended before all of its output is.
    pub(crate) fn before_the_end(self) -> Self {
        Self { status: Status::Running, exit_code: None, outcome: None, ..self }
    }

    /// Returns what is known of an exec whose guest is gone.
    pub fn lost() -> Self {
        Self {
            status: Status::Completed,
            exit_code: None,
            outcome: Some(Outcome::Lost),
            duration_ms: 0,
            truncated: false,
            truncation: None,
            stdout_bytes: 0,
            stderr_bytes: 0,
            limits_hit: Vec::new(),
            ended_background: None,
        }
    }

    /// Says that an answer does not carry all the output that was kept.
    pub(crate) fn leave_out(&mut self, gap: &Gap) {
        let dropped = self.truncation.map_or(Truncation { from: gap.from, bytes: 0 }, |dropped| dropped);
        self.truncated = true;
        self.truncation = Some(Truncation {
            from: dropped.from.min(gap.from),
            bytes: dropped.bytes.saturating_add(gap.bytes),
        });
    }

    /// Tells whether it has ended.
    pub fn is_done(&self) -> bool {
        self.status == Status::Completed
    }

    fn with(state: &wire::ExecState, outcome: Option<Outcome>) -> Self {
        Self {
            status: if outcome.is_some() { Status::Completed } else { Status::Running },
            exit_code: outcome.and_then(Outcome::exit_code),
            outcome,
            duration_ms: state.duration_ms,
            truncated: state.truncation.is_some(),
            truncation: state.truncation.map(|gap| Truncation { from: gap.from, bytes: gap.bytes }),
            stdout_bytes: state.stdout_bytes,
            stderr_bytes: state.stderr_bytes,
            limits_hit: state.limits.iter().map(limit_hit).collect(),
            ended_background: state.ended_background,
        }
    }
}

fn outcome(ending: wire::Ending) -> Outcome {
    match ending {
        wire::Ending::Exited(code) => Outcome::Exited { code },
        wire::Ending::Signalled(signal) => Outcome::Signalled { signal },
        wire::Ending::OomKilled => Outcome::OomKilled,
        wire::Ending::TimedOut => Outcome::TimedOut,
        wire::Ending::Stopped => Outcome::Stopped,
    }
}

fn limit_hit(hit: &wire::LimitHit) -> LimitHit {
    match hit {
        wire::LimitHit::Memory => LimitHit::Memory,
        wire::LimitHit::Pids => LimitHit::Pids,
        wire::LimitHit::WallTime => LimitHit::WallTime,
        wire::LimitHit::Output => LimitHit::Output,
    }
}
