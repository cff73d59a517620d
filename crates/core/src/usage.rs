//! What a sandbox takes of the machine, as far as its backend can tell. What it cannot tell is absent, never a guess.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What the commands of a sandbox use.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Usage {
    /// CPU time used so far.
    pub cpu_ms: Option<u64>,
    /// Memory now, with what the kernel keeps of files for them.
    pub memory_bytes: Option<u64>,
    /// The most memory there ever was.
    pub memory_peak_bytes: Option<u64>,
    /// Processes and threads now; an engine counts those of the guest among them.
    pub processes: Option<u64>,
    /// What is written to its own files.
    pub disk_bytes: Option<u64>,
    /// How much that may be.
    pub disk_limit_bytes: Option<u64>,
}
