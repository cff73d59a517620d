//! The plan the guest boots by.

use coracle_core::backend::Order;
use coracle_core::mount::{Access, Mount, Source};
use coracle_core::network::{listener, proxy};
use coracle_core::spec::{Privileges, Spec};
use coracle_wire::{Boot, Egress, MemoryStorage, MountPoint, Place, ProcessLimit};

use crate::native::filter;
use crate::native::image::Root;
use crate::native::privilege::Privilege;
use crate::native::storage::Storage;
use crate::native::weak;

/// Shared memory counts as the sandbox's memory and stays when the process that filled it is killed. A quarter at
/// most, or nothing could ever free it again.
const SHM_MAX: u64 = 64 << 20;

/// chown, dac_override, fowner, fsetid, setgid, setuid: what package managers need, inside the sandbox.
const INSTALL: u64 = 1 | 1 << 1 | 1 << 3 | 1 << 4 | 1 << 6 | 1 << 7;

/// Returns the plan without what depends on cgroups and mounts that are still to be opened.
pub fn plan(order: &Order<'_>, root: &Root, storage: Storage, privilege: Privilege) -> Boot {
    let spec = order.spec;
    Boot {
        secret: order.secret.0.to_vec(),
        epoch: order.epoch.0,
        hostname: "sandbox".to_owned(),
        ttl_ms: spec.limits.idle().as_millis() as u64,
        workdir: bytes(spec.workdir(root.config.workdir.as_deref())),
        env: environment(spec, root),
        capabilities: capabilities(spec),
        filter: filter::COMMANDS.to_vec(),
        last_filter: filter::LAST.to_vec(),
        more_filters: more_filters(spec),
        overlays: root.shared.iter().map(|name| (*name).to_owned()).collect(),
        shm_bytes: spec.limits.memory_mb.map_or(SHM_MAX, |megabytes| (megabytes << 18).min(SHM_MAX)),
        joins: 0,
        memory_counter: false,
        pids_counter: false,
        layers: root.layers.len() as u32,
        memory: match storage {
            Storage::Memory(size) => Some(MemoryStorage { bytes: size.megabytes << 20, inodes: size.inodes }),
            Storage::Disk(_) | Storage::Directory => None,
        },
        mounts: spec
            .mounts
            .iter()
            .map(|mount| MountPoint {
                target: bytes(&mount.target),
                overlay: mount.access == Access::Overlay,
            })
            .collect(),
        sources: Vec::new(),
        user: root.config.user.as_deref().map(bytes),
        without_cgroups: (!privilege.is_root()).then_some(ProcessLimit { pids: spec.limits.pids }),
        bases: Vec::new(),
        weakened: weak::weakened(),
        egress: egress(spec),
    }
}

/// The image's variables, then the caller's: a later one replaces an earlier.
fn environment(spec: &Spec, root: &Root) -> Vec<(Vec<u8>, Vec<u8>)> {
    let proxy = proxy::variables(spec);
    let ours = |name: &str| proxy.iter().any(|(own, _)| own == name);
    let of_image = root.env.iter().filter(|(name, _)| !spec.env.contains_key(name) && !ours(name));
    let of_image = of_image.map(|(name, value)| (bytes(name), bytes(value)));
    let of_network = proxy.iter().map(|(name, value)| (bytes(name), bytes(value)));
    let of_caller = spec.env.iter().map(|(name, value)| (bytes(name), bytes(value)));
    of_image.chain(of_network).chain(of_caller).collect()
}

/// Returns where commands find the network they were given.
fn egress(spec: &Spec) -> Option<Egress> {
    let listeners = listener::listeners(&spec.network);
    (!listeners.is_empty()).then(|| Egress {
        hosts: listener::hosts_lines(&listeners),
        listeners: listeners
            .iter()
            .map(|listener| Place { address: listener.address.to_bits(), port: listener.port })
            .collect(),
    })
}

/// Package managers, who make set-user-id files by right, need `install`: who asks for that with a directory of theirs
/// mounted gets both.
fn more_filters(spec: &Spec) -> Vec<Vec<u8>> {
    let shared =
        |mount: &Mount| mount.access == Access::ReadWrite && matches!(mount.source, Source::Directory(_));
    match spec.privileges == Privileges::Minimal && spec.mounts.iter().any(shared) {
        true => filter::SHARED.map(<[u8]>::to_vec).into(),
        false => Vec::new(),
    }
}

fn capabilities(spec: &Spec) -> u64 {
    if weak::off(weak::Wall::Capabilities) {
        return weak::all_capabilities();
    }
    match spec.privileges {
        Privileges::Minimal => 0,
        Privileges::Install => INSTALL,
    }
}

fn bytes(text: &str) -> Vec<u8> {
    text.as_bytes().to_vec()
}
