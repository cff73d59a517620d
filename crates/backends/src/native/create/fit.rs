//! Whether this machine can enforce what the spec demands.

use coracle_core::backend::Profile;
use coracle_core::limits::Limit;
use coracle_core::{Error, Kind, Result, Spec};
use coracle_sys::cgroup::Values;

use crate::native::weak;

/// Refuses a spec with a limit the caller wrote, or a wall the caller demands, that would not be enforced. `profile`
/// is what would be.
pub fn check(profile: &Profile, spec: &Spec) -> Result<()> {
    let stands = |name: &str| profile.walls.iter().any(|wall| wall.name == name && wall.enforced);
    let limits = spec.limits.required.iter().filter(|limit| !spec.allow_missing.contains(limit));
    let misfits: Vec<&str> = limits
        .map(|limit| name(*limit))
        .chain(spec.require.iter().map(String::as_str))
        .filter(|name| !stands(name))
        .collect();
    if misfits.is_empty() {
        return Ok(());
    }
    let why = |misfit: &&str| match profile.walls.iter().find(|wall| wall.name == **misfit) {
        Some(wall) => format!("{misfit} ({})", wall.how),
        None => format!("{misfit} (there is no such wall)"),
    };
    let reasons: Vec<_> = misfits.iter().map(why).collect();
    Err(Error::new(
        Kind::Unsupported,
        format!("the native backend cannot enforce {} here", reasons.join(", ")),
    )
    .detail("misfits", misfits.clone())
    .hint(format!(
        "leave it out, or accept that with `allow_missing: [{}]`; `coracle doctor` says why",
        misfits.join(", ")
    )))
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
    if weak::off(weak::Wall::Limits) {
        return Values::default();
    }
    Values {
        cpu_millicores: limits.cpu_millicores,
        memory_bytes: limits.memory_mb.map(|megabytes| megabytes << 20),
        pids: limits.pids,
    }
}
