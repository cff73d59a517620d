//! Limits of a sandbox: what a caller may write, the defaults, the maxima.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// The hint that tells where the maximum is set.
pub(crate) const SET_BY_OPERATOR: &str =
    "ask for less; the operator sets the maximum, in `[limits]` of `config.toml` (`coracle config` shows it)";

/// Limits as a caller writes them; what is absent gets the default.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LimitsInput {
    /// Thousandths of a CPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_millicores: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_mb: Option<u64>,
    /// Processes and threads at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pids: Option<u64>,
    /// How long the sandbox may be idle before it is gone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_seconds: Option<u64>,
    /// All that may be written to the sandbox's own files: the workspace, `/tmp` and the rest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace_mb: Option<u64>,
    /// Files and directories that may be made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inodes: Option<u64>,
    /// Bytes of output kept for each exec.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_bytes: Option<u64>,
}

impl LimitsInput {
    /// Returns these limits, filled up from `other` where absent.
    pub fn or(self, other: &Self) -> Self {
        self.joined(other, Option::or)
    }

    /// Returns these limits, each lowered to `most` where it is above.
    pub fn lowered_to(&self, most: &Self) -> Self {
        let lower = |own: Option<u64>, most: Option<u64>| own.map(|own| own.min(most.unwrap_or(own)));
        self.clone().joined(most, lower)
    }

    fn joined(self, other: &Self, join: impl Fn(Option<u64>, Option<u64>) -> Option<u64>) -> Self {
        Self {
            cpu_millicores: join(self.cpu_millicores, other.cpu_millicores),
            memory_mb: join(self.memory_mb, other.memory_mb),
            pids: join(self.pids, other.pids),
            timeout_seconds: join(self.timeout_seconds, other.timeout_seconds),
            workspace_mb: join(self.workspace_mb, other.workspace_mb),
            inodes: join(self.inodes, other.inodes),
            output_bytes: join(self.output_bytes, other.output_bytes),
        }
    }

    /// Tells whether the caller wrote this limit, which a backend has to enforce.
    pub fn writes(&self, limit: Limit) -> bool {
        match limit {
            Limit::Cpu => self.cpu_millicores.is_some(),
            Limit::Memory => self.memory_mb.is_some(),
            Limit::Pids => self.pids.is_some(),
            Limit::Disk => self.workspace_mb.is_some() || self.inodes.is_some(),
        }
    }
}

/// Limits in force. `None` is unlimited, which only an explicit `limits: "unlimited"` gives.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Limits {
    pub cpu_millicores: Option<u64>,
    pub memory_mb: Option<u64>,
    pub pids: Option<u64>,
    pub timeout_seconds: u64,
    pub workspace_mb: Option<u64>,
    #[serde(default)]
    pub inodes: Option<u64>,
    pub output_bytes: u64,
    /// The limits the caller wrote: the backend refuses the sandbox if it cannot enforce one.
    pub required: Vec<Limit>,
}

/// The name of a limit a backend has to enforce.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    Cpu,
    Memory,
    Pids,
    Disk,
}

impl Limit {
    pub fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Memory => "memory",
            Self::Pids => "pids",
            Self::Disk => "disk",
        }
    }
}

/// The default, and the most a caller may ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Range {
    pub default: u64,
    pub max: u64,
}

/// The range of every limit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ranges {
    pub cpu_millicores: Range,
    pub memory_mb: Range,
    pub pids: Range,
    pub timeout_seconds: Range,
    pub workspace_mb: Range,
    pub inodes: Range,
    pub output_bytes: Range,
}

impl Default for Ranges {
    fn default() -> Self {
        Self {
            cpu_millicores: Range { default: 2_000, max: 8_000 },
            memory_mb: Range { default: 4 << 10, max: 16 << 10 },
            pids: Range { default: 1_024, max: 32_768 },
            timeout_seconds: Range { default: 15 * 60, max: 24 * 3600 },
            workspace_mb: Range { default: 20 << 10, max: 100 << 10 },
            inodes: Range { default: 1_000_000, max: 10_000_000 },
            output_bytes: Range { default: 10_000_000, max: 64_000_000 },
        }
    }
}

impl Limits {
    /// Fills in the defaults and refuses what is out of range.
    pub fn resolve(input: &LimitsInput, ranges: &Ranges) -> Result<Self> {
        let written = [
            (Limit::Cpu, input.cpu_millicores),
            (Limit::Memory, input.memory_mb),
            (Limit::Pids, input.pids),
            (Limit::Disk, input.workspace_mb.or(input.inodes)),
        ];
        Ok(Self {
            // The kernel refuses a CPU quota below 10 ms of each second.
            cpu_millicores: Some(pick(
                "limits.cpu_millicores",
                input.cpu_millicores,
                10,
                ranges.cpu_millicores,
            )?),
            // With less, no interpreter starts, and the failure would look like coracle's.
            memory_mb: Some(pick("limits.memory_mb", input.memory_mb, 4, ranges.memory_mb)?),
            pids: Some(pick("limits.pids", input.pids, 1, ranges.pids)?),
            timeout_seconds: pick(
                "limits.timeout_seconds",
                input.timeout_seconds,
                1,
                ranges.timeout_seconds,
            )?,
            workspace_mb: Some(pick("limits.workspace_mb", input.workspace_mb, 1, ranges.workspace_mb)?),
            inodes: Some(pick("limits.inodes", input.inodes, 16, ranges.inodes)?),
            output_bytes: pick("limits.output_bytes", input.output_bytes, 1024, ranges.output_bytes)?,
            required: written.iter().filter(|(_, value)| value.is_some()).map(|(limit, _)| *limit).collect(),
        })
    }

    /// Returns no limits except those that protect coracle itself.
    pub fn unlimited(ranges: &Ranges) -> Self {
        Self {
            cpu_millicores: None,
            memory_mb: None,
            pids: None,
            timeout_seconds: ranges.timeout_seconds.default,
            workspace_mb: None,
            inodes: None,
            output_bytes: ranges.output_bytes.default,
            required: Vec::new(),
        }
    }

    /// Returns how long the sandbox may be idle.
    pub fn idle(&self) -> Duration {
        Duration::from_secs(self.timeout_seconds)
    }
}

fn pick(field: &str, value: Option<u64>, min: u64, range: Range) -> Result<u64> {
    let value = value.unwrap_or(range.default);
    if (min..=range.max).contains(&value) {
        return Ok(value);
    }
    let error = Error::invalid(field, format!("is {value}, outside {min} to {}", range.max))
        .detail("value", value)
        .detail("min", min)
        .detail("max", range.max);
    Err(if value > range.max { error.hint(SET_BY_OPERATOR) } else { error })
}
