//! Whether a backend enforces what the spec demands.

use coracle_core::backend::Profile;
use coracle_core::limits::Limit;
use coracle_core::spec::Privileges;
use coracle_core::{Error, Kind, Result, Spec};

/// Refuses a spec with a limit the caller wrote, or a wall the caller demands, that would not be enforced. `profile`
/// is what would be.
pub fn check(backend: &str, profile: &Profile, spec: &Spec) -> Result<()> {
    let stands = |name: &str| profile.walls.iter().any(|wall| wall.name == name && wall.enforced);
    let limits = spec.limits.required.iter().filter(|limit| !spec.allow_missing.contains(limit));
    let misfits: Vec<&str> = limits
        .map(|limit| name(*limit))
        .chain(spec.require.iter().map(String::as_str))
        // Changing owners and users takes users to change to.
        .chain((spec.privileges == Privileges::Install).then_some("separate_users"))
        .filter(|name| !stands(name))
        .collect();
    if misfits.is_empty() {
        return Ok(());
    }
    let why = |misfit: &&str| match profile.walls.iter().find(|wall| wall.name == **misfit) {
        Some(wall) => format!("{misfit} ({})", wall.how),
        None => {
            let names: Vec<_> = profile.walls.iter().map(|wall| wall.name.as_str()).collect();
            format!("{misfit} (there is no such wall; there are {})", names.join(", "))
        }
    };
    let reasons: Vec<_> = misfits.iter().map(why).collect();
    Err(Error::new(
        Kind::Unsupported,
        format!("backend `{backend}` cannot enforce {} here", reasons.join(", ")),
    )
    .detail("misfits", misfits.clone())
.hint("leave it out; a limit may also be named in `allow_missing` (`--allow-missing`). `coracle doctor` says more"))
}

fn name(limit: Limit) -> &'static str {
    match limit {
        Limit::Cpu => "cpu",
        Limit::Memory => "memory",
        Limit::Pids => "pids",
        Limit::Disk => "disk",
    }
}
