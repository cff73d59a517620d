//! Volumes: directories kept by coracle that outlive the sandboxes they are mounted in.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::clock::Timestamp;
use crate::error::Result;
use crate::ids::{SandboxId, VolumeName};

/// One stored volume.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Kept {
    pub name: VolumeName,
    /// Its size on the machine; absent if unknown.
    pub size_bytes: Option<u64>,
    /// The most it may hold; absent if unbounded.
    pub limit_mb: Option<u64>,
    pub created_at: Timestamp,
    /// The sandboxes that mount it.
    pub used_by: Vec<SandboxId>,
}

/// Where a backend keeps volumes. A volume is made when a sandbox first mounts it.
pub trait Volumes: Send + Sync {
    /// Lists volumes, by name.
    fn list(&self) -> Result<Vec<Kept>>;

    /// Removes a volume with its contents. Fails with `conflict` while a sandbox uses it, with `not_found` if there
    /// is none.
    fn remove(&self, name: &VolumeName) -> Result<()>;
}
