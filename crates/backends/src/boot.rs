//! The part of the boot plan that is the same on every backend.

use std::collections::BTreeSet;

use coracle_core::VolumeName;
use coracle_core::backend::Order;
use coracle_core::mount::{Access, Mount, Source};
use coracle_core::network::{listener, proxy};
use coracle_core::spec::{OnIdle, Privileges, Spec};
use coracle_core::{Error, Result, image};
use coracle_wire::{Boot, Egress, ListenAddress, MountPoint};

use crate::{filter, weak};

/// Shared memory counts as the sandbox's memory and stays when the process that filled it is killed. A quarter at
/// most, or nothing could ever free it again.
const SHM_MAX: u64 = 64 << 20;

/// chown, dac_override, fowner, fsetid, setgid, setuid: what package managers need, inside the sandbox.
const INSTALL: u64 = 1 | 1 << 1 | 1 << 3 | 1 << 4 | 1 << 6 | 1 << 7;

/// The image the guest starts from, and which volumes other sandboxes use.
#[derive(Debug, Clone, Copy)]
pub struct Known<'a> {
    pub image: &'a image::Config,
    pub env: &'a [(String, String)],
    pub in_use: &'a BTreeSet<VolumeName>,
}

/// Returns the plan of a guest that has nothing to build. Its backend adds root, storage and cgroups.
pub fn plan(order: &Order<'_>, known: Known<'_>) -> Boot {
    let Known { image, env, in_use } = known;
    let spec = order.spec;
    Boot {
        secret: order.secret.0.to_vec(),
        epoch: order.epoch.0,
        hostname: HOSTNAME.to_owned(),
        ttl_ms: spec.limits.idle().as_millis() as u64,
        workdir: bytes(spec.workdir(image.workdir.as_deref())),
        env: environment(spec, env),
        capabilities: capabilities(spec),
        may_trace: spec.privileges == Privileges::Debug,
        filter: filter(spec).to_vec(),
        last_filter: filter::LAST.to_vec(),
        more_filters: more_filters(spec),
        overlays: Vec::new(),
        shm_bytes: shm_bytes(spec),
        joins: 0,
        memory_counter: false,
        pids_counter: false,
        layers: 0,
        memory: None,
        mounts: spec.mounts.iter().map(|mount| mount_point(mount, in_use)).collect(),
        sources: Vec::new(),
        user: spec.user(Some(image)).map(bytes),
        asks_owner: false,
        on_disk: false,
        without_cgroups: None,
        bases: Vec::new(),
        wakes: false,
        sleeps: spec.on_idle() == OnIdle::Hibernate,
        weakened: weak::weakened(),
        egress: egress(spec),
        tied: false,
        contained: false,
        shared_users_filter: None,
    }
}

/// Refuses a user that the caller named and the image does not have: every command would fail. Accepts an unknown
/// user that the image itself names, because commands may run as another.
pub fn expect_known(spec: &Spec, is_known: bool) -> Result<()> {
    match spec.user.as_deref().filter(|_| !is_known) {
        None => Ok(()),
        Some(user) => {
            let what = format!("is `{}`, a user the image does not have", user.escape_debug());
            Err(Error::invalid("user", what)
                .hint("name users and groups that are in its `/etc/passwd` and `/etc/group`, or numbers below 65535"))
        }
    }
}

/// The host name that commands see.
pub const HOSTNAME: &str = "sandbox";

/// Returns the size of `/dev/shm`.
pub fn shm_bytes(spec: &Spec) -> u64 {
    spec.limits.memory_mb.map_or(SHM_MAX, |megabytes| (megabytes << 18).min(SHM_MAX))
}

/// Gives a volume to a new user only if no other sandbox uses it: a running one must not lose its write access.
fn mount_point(mount: &Mount, in_use: &BTreeSet<VolumeName>) -> MountPoint {
    MountPoint {
        target: bytes(&mount.target),
        overlay: mount.access == Access::Overlay,
        given: matches!(&mount.source, Source::Volume(name) if !in_use.contains(name)),
    }
}

/// The image's variables, then the caller's: a later one replaces an earlier.
fn environment(spec: &Spec, of_image: &[(String, String)]) -> Vec<(Vec<u8>, Vec<u8>)> {
    let proxy = proxy::variables(spec);
    let ours = |name: &str| proxy.iter().any(|(own, _)| own == name);
    let of_image = of_image.iter().filter(|(name, _)| !spec.env.contains_key(name) && !ours(name));
    let of_image = of_image.map(|(name, value)| (bytes(name), bytes(value)));
    let of_network = proxy.iter().map(|(name, value)| (bytes(name), bytes(value)));
    let of_caller = spec.env.iter().map(|(name, value)| (bytes(name), bytes(value)));
    of_image.chain(of_network).chain(of_caller).collect()
}

/// Returns the listeners through which commands reach their network.
fn egress(spec: &Spec) -> Option<Egress> {
    let listeners = listener::listeners(&spec.network);
    (!listeners.is_empty()).then(|| Egress {
        hosts: listener::hosts_lines(&listeners),
        listeners: listeners
            .iter()
            .map(|listener| ListenAddress { address: listener.address.to_bits(), port: listener.port })
            .collect(),
    })
}

fn filter(spec: &Spec) -> &'static [u8] {
    match spec.privileges {
        Privileges::Minimal | Privileges::Install => filter::COMMANDS,
        Privileges::Debug => filter::DEBUG,
    }
}

/// Returns the filters against set-user-id files, unless the spec asks for `install`: package managers make such
/// files by right, so a caller who asks for it with a directory mounted accepts them.
fn more_filters(spec: &Spec) -> Vec<Vec<u8>> {
    let shared =
        |mount: &Mount| mount.access == Access::ReadWrite && matches!(mount.source, Source::Directory(_));
    match spec.privileges != Privileges::Install && spec.mounts.iter().any(shared) {
        true => filter::SHARED.map(<[u8]>::to_vec).into(),
        false => Vec::new(),
    }
}

/// Returns the capabilities commands may have, as a bit mask.
pub fn capabilities(spec: &Spec) -> u64 {
    if weak::off(weak::Wall::Capabilities) {
        return weak::all_capabilities();
    }
    match spec.privileges {
        Privileges::Minimal | Privileges::Debug => 0,
        Privileges::Install => INSTALL,
    }
}

fn bytes(text: &str) -> Vec<u8> {
    text.as_bytes().to_vec()
}
