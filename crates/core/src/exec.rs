//! What an exec shall do and how it ended.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How an exec ended. A failing command is a value, never an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Outcome {
    Exited {
        code: i32,
    },
    Signalled {
        signal: i32,
    },
    OomKilled,
    TimedOut,
    Stopped,
    /// The sandbox was gone before the end was seen.
    Lost,
}

impl Outcome {
    /// Returns the exit code, if it exited by itself.
    pub fn exit_code(self) -> Option<i32> {
        match self {
            Self::Exited { code } => Some(code),
            Self::Signalled { .. } | Self::OomKilled | Self::TimedOut | Self::Stopped | Self::Lost => None,
        }
    }

    /// Returns the name of this kind of end.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Exited { .. } => "exited",
            Self::Signalled { .. } => "signalled",
            Self::OomKilled => "oom_killed",
            Self::TimedOut => "timed_out",
            Self::Stopped => "stopped",
            Self::Lost => "lost",
        }
    }
}

/// A limit that was enforced while an exec ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LimitHit {
    Memory,
    Pids,
    WallTime,
    Output,
}

impl LimitHit {
    /// Returns the name of the limit.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Pids => "pids",
            Self::WallTime => "wall_time",
            Self::Output => "output",
        }
    }
}

/// The part of the output that was not kept: `bytes` in all, from chunk `from` on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Truncation {
    pub from: u64,
    pub bytes: u64,
}
