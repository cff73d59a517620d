//! What a sandbox uses of the machine. Values its backend cannot measure are absent, never guessed.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What the commands of a sandbox use.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Usage {
    /// CPU time used so far.
    pub cpu_ms: Option<u64>,
    /// Memory now, including the kernel's file cache for them.
    pub memory_bytes: Option<u64>,
    /// The highest memory use so far.
    pub memory_peak_bytes: Option<u64>,
    /// Processes and threads now; a container engine also counts those of the guest.
    pub processes: Option<u64>,
    /// Bytes written to its own files.
    pub disk_bytes: Option<u64>,
    /// The maximum of that.
    pub disk_limit_bytes: Option<u64>,
}
