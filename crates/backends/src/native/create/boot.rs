//! The plan a guest of ours builds its sandbox by.

use coracle_core::backend::Order;
use coracle_wire::{Boot, MemoryStorage, ProcessLimit};

use crate::boot;
use crate::native::image::Root;
use crate::native::privilege::Privilege;
use crate::native::storage::Storage;

/// Returns the plan without what depends on cgroups and mounts that are still to be opened.
pub fn plan(order: &Order<'_>, root: &Root, storage: Storage, privilege: Privilege) -> Boot {
    Boot {
        overlays: root.shared_names(),
        layers: root.layers.len() as u32,
        memory: match storage {
            Storage::Memory(size) => Some(MemoryStorage { bytes: size.megabytes << 20, inodes: size.inodes }),
            Storage::Disk(_) | Storage::Directory => None,
        },
        on_disk: matches!(storage, Storage::Disk(_)),
        without_cgroups: (!privilege.is_root()).then_some(ProcessLimit { pids: order.spec.limits.pids }),
        ..boot::plan(order, &root.config, &root.env)
    }
}
