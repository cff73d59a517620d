//! The boot plan of a native sandbox.

use coracle_core::backend::{EndsWith, Order};
use coracle_wire::{Boot, MemoryStorage, ProcessLimit};

use super::Parts;
use super::bring::Brought;
use crate::boot::{self, Known};
use crate::native::privilege::Privilege;
use crate::native::storage::Storage;

/// Returns the plan without the parts that depend on cgroups and mounts, which are opened later.
pub fn plan(order: &Order<'_>, parts: &Parts<'_>, privilege: Privilege) -> Boot {
    let (root, storage) = (&parts.root, parts.storage);
    let in_use = parts.brought.iter().filter_map(Brought::volume_in_use).cloned().collect();
    Boot {
        overlays: root.shared_names(),
        layers: root.layers.len() as u32,
        memory: match storage {
            Storage::Memory(size) => Some(MemoryStorage { bytes: size.megabytes << 20, inodes: size.inodes }),
            Storage::Disk(_) | Storage::Directory => None,
        },
        on_disk: matches!(storage, Storage::Disk(_)),
        tied: order.ends_with == EndsWith::Maker,
        without_cgroups: (!privilege.is_root()).then_some(ProcessLimit { pids: order.spec.limits.pids }),
        ..boot::plan(order, Known { image: &root.config, env: &root.env, in_use: &in_use })
    }
}
