//! Whether this machine can enforce what the spec demands.

use coracle_core::limits::Limit;
use coracle_core::{Error, Kind, Result, Spec};
use coracle_sys::cgroup::{Controller, Layout, Values};

/// Refuses a spec with a limit the caller wrote and we cannot enforce.
pub fn check(layout: &Layout, spec: &Spec) -> Result<()> {
    let missing = |limit: &&Limit| !spec.allow_missing.contains(limit) && !is_enforced(layout, **limit);
    let misfits: Vec<_> = spec.limits.required.iter().filter(missing).map(|limit| name(*limit)).collect();
    if misfits.is_empty() {
        return Ok(());
    }
    Err(Error::new(
        Kind::Unsupported,
        format!("the native backend cannot enforce {} here", misfits.join(", ")),
    )
    .detail("misfits", misfits.clone())
    .hint(format!(
        "leave it out, or accept that with `allow_missing: [{}]`; `coracle doctor` says why",
        misfits.join(", ")
    )))
}

fn is_enforced(layout: &Layout, limit: Limit) -> bool {
    match limit {
        Limit::Cpu => layout.enforced_by(Controller::Cpu).is_some(),
        Limit::Memory => layout.enforced_by(Controller::Memory).is_some(),
        Limit::Pids => layout.enforced_by(Controller::Pids).is_some(),
        Limit::Disk => false,
    }
}

fn name(limit: Limit) -> &'static str {
    match limit {
        Limit::Cpu => "cpu",
        Limit::Memory => "memory",
        Limit::Pids => "pids",
        Limit::Disk => "disk",
    }
}

/// Returns the limits as the kernel takes them.
pub fn values(spec: &Spec) -> Values {
    let limits = &spec.limits;
    Values {
        cpu_millicores: limits.cpu_millicores,
        memory_bytes: limits.memory_mb.map(|megabytes| megabytes << 20),
        pids: limits.pids,
    }
}
