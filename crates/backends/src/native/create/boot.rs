//! The plan the guest boots by.

use coracle_core::backend::Order;
use coracle_core::spec::{Privileges, Spec, WORKSPACE};
use coracle_images::host::Host;
use coracle_wire::Boot;

use crate::native::filter;

/// Shared memory counts as the sandbox's memory and stays when the process that filled it is killed. A quarter at
/// most, or nothing could ever free it again.
const SHM_MAX: u64 = 64 << 20;

/// chown, dac_override, fowner, fsetid, setgid, setuid: what package managers need, inside the sandbox.
const INSTALL: u64 = 1 | 1 << 1 | 1 << 3 | 1 << 4 | 1 << 6 | 1 << 7;

pub fn plan(order: &Order<'_>, image: &Host) -> Boot {
    let bytes = |text: &str| text.as_bytes().to_vec();
    Boot {
        secret: order.secret.0.to_vec(),
        epoch: order.epoch.0,
        hostname: "sandbox".to_owned(),
        ttl_ms: order.spec.limits.idle().as_millis() as u64,
        workdir: bytes(order.spec.workdir.as_deref().unwrap_or(WORKSPACE)),
        env: order.spec.env.iter().map(|(name, value)| (bytes(name), bytes(value))).collect(),
        capabilities: capabilities(order.spec),
        filter: filter::COMMANDS.to_vec(),
        last_filter: filter::LAST.to_vec(),
        overlays: image.shared.iter().map(|name| (*name).to_owned()).collect(),
        shm_bytes: order.spec.limits.memory_mb.map_or(SHM_MAX, |megabytes| (megabytes << 18).min(SHM_MAX)),
        joins: 0,
        memory_counter: false,
        pids_counter: false,
    }
}

fn capabilities(spec: &Spec) -> u64 {
    match spec.privileges {
        Privileges::Minimal => 0,
        Privileges::Install => INSTALL,
    }
}
