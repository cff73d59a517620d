//! Volumes in memory: made when a sandbox mounts one, in use while a sandbox mounts it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use coracle_core::clock::Timestamp;
use coracle_core::error::{Error, Kind, Result};
use coracle_core::ids::{SandboxId, VolumeName};
use coracle_core::mount::Source;
use coracle_core::spec::Spec;
use coracle_core::volume::{Kept, Volumes};

/// The volumes of one home. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct FakeVolumes(Arc<Mutex<BTreeMap<VolumeName, FakeVolume>>>);

/// The sandboxes that mount a volume, and the size limit that the first of them set.
#[derive(Debug, Default)]
struct FakeVolume {
    users: BTreeSet<SandboxId>,
    limit_mb: Option<u64>,
}

impl FakeVolumes {
    /// Mounts the volumes of a sandbox.
    pub(super) fn mount(&self, sandbox: &SandboxId, spec: &Spec) {
        for mount in &spec.mounts {
            if let Source::Volume(name) = &mount.source {
                let new = || FakeVolume { limit_mb: spec.limits.workspace_mb, ..FakeVolume::default() };
                self.volumes().entry(name.clone()).or_insert_with(new).users.insert(sandbox.clone());
            }
        }
    }

    /// Releases the volumes of a sandbox.
    pub(super) fn let_go(&self, sandbox: &SandboxId) {
        self.volumes().values_mut().for_each(|volume| volume.users.retain(|user| user != sandbox));
    }

    fn volumes(&self) -> MutexGuard<'_, BTreeMap<VolumeName, FakeVolume>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Volumes for FakeVolumes {
    fn list(&self) -> Result<Vec<Kept>> {
        let kept = |(name, volume): (&VolumeName, &FakeVolume)| Kept {
            name: name.clone(),
            size_bytes: Some(0),
            limit_mb: volume.limit_mb,
            created_at: Timestamp::from_millis(1_700_000_000_000),
            used_by: volume.users.iter().cloned().collect(),
        };
        Ok(self.volumes().iter().map(kept).collect())
    }

    fn remove(&self, name: &VolumeName) -> Result<()> {
        let mut volumes = self.volumes();
        match volumes.get(name) {
            None => Err(Error::new(Kind::NotFound, format!("there is no volume `{name}`"))),
            Some(volume) if volume.users.is_empty() => {
                volumes.remove(name);
                Ok(())
            }
            Some(volume) => {
                let users: Vec<_> = volume.users.iter().map(SandboxId::as_str).collect();
                let message = format!("could not remove volume `{name}`: it is in use");
                Err(Error::new(Kind::Conflict, message).detail("used_by", users))
            }
        }
    }
}
