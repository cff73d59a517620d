//! Volumes in memory: made when a sandbox mounts one, held by those that do.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::clock::Timestamp;
use crate::error::{Error, Kind, Result};
use crate::ids::{SandboxId, VolumeName};
use crate::mount::{Mount, Source};
use crate::volume::{Kept, Volumes};

/// The volumes of one home, each with the sandboxes it is mounted in. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct FakeVolumes(Arc<Mutex<BTreeMap<VolumeName, BTreeSet<SandboxId>>>>);

impl FakeVolumes {
    /// Mounts what a sandbox asks for.
    pub(super) fn mount(&self, sandbox: &SandboxId, mounts: &[Mount]) {
        for mount in mounts {
            if let Source::Volume(name) = &mount.source {
                self.volumes().entry(name.clone()).or_default().insert(sandbox.clone());
            }
        }
    }

    /// Lets go of what a sandbox had mounted.
    pub(super) fn let_go(&self, sandbox: &SandboxId) {
        self.volumes().values_mut().for_each(|users| users.retain(|user| user != sandbox));
    }

    fn volumes(&self) -> MutexGuard<'_, BTreeMap<VolumeName, BTreeSet<SandboxId>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Volumes for FakeVolumes {
    fn list(&self) -> Result<Vec<Kept>> {
        let kept = |(name, users): (&VolumeName, &BTreeSet<SandboxId>)| Kept {
            name: name.clone(),
            size_bytes: Some(0),
            limit_mb: None,
            created_at: Timestamp::from_millis(1_700_000_000_000),
            used_by: users.iter().cloned().collect(),
        };
        Ok(self.volumes().iter().map(kept).collect())
    }

    fn remove(&self, name: &VolumeName) -> Result<()> {
        let mut volumes = self.volumes();
        match volumes.get(name) {
            None => Err(Error::new(Kind::NotFound, format!("there is no volume `{name}`"))),
            Some(users) if users.is_empty() => {
                volumes.remove(name);
                Ok(())
            }
            Some(users) => {
                let users: Vec<_> = users.iter().map(SandboxId::as_str).collect();
                let message = format!("could not remove volume `{name}`: it is in use");
                Err(Error::new(Kind::Conflict, message).detail("used_by", users))
            }
        }
    }
}
