//! Volumes: directories kept by coracle that outlive the sandboxes they are mounted in.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::clock::Timestamp;
use crate::error::Result;
use crate::ids::{SandboxId, VolumeName};

/// One volume that is here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Kept {
    pub name: VolumeName,
    /// What it takes on the machine; absent where that cannot be told.
    pub size_bytes: Option<u64>,
    /// The most it may hold; absent where nothing bounds it.
    pub limit_mb: Option<u64>,
    pub created_at: Timestamp,
    /// Sandboxes it is mounted in.
    pub used_by: Vec<SandboxId>,
}

/// Where a backend keeps volumes. One is made when a sandbox first mounts it.
pub trait Volumes: Send + Sync {
    /// Lists them, by name.
    fn list(&self) -> Result<Vec<Kept>>;

    /// Removes one with all that is in it. Fails with `conflict` while a sandbox uses it, with `not_found` if there is
    /// none.
    fn remove(&self, name: &VolumeName) -> Result<()>;
}
