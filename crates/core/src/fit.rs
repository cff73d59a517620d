//! Whether a backend can enforce what a spec demands.

use crate::backend::{Probe, Profile};
use crate::error::{Error, Kind, Result};
use crate::spec::{Privileges, Spec};

/// Refuses a spec on a backend that cannot be used, or that would not enforce what the spec demands.
pub fn check_probe(backend: &str, probe: &Probe, spec: &Spec) -> Result<()> {
    check_available(backend, probe)?;
    check(backend, &probe.profile, spec)
}

/// Refuses a backend that cannot be used.
pub fn check_available(backend: &str, probe: &Probe) -> Result<()> {
    if probe.available {
        return Ok(());
    }
    let reason = probe.reason.as_deref().unwrap_or("it gives no reason");
    Err(Error::new(Kind::NotAvailable, format!("backend `{backend}` cannot be used here: {reason}"))
        .hint("`coracle backends` shows those that can")
        .detail("backend", backend))
}

/// Refuses a spec with a limit the caller wrote, or a wall the caller demands, that would not be enforced. `profile`
/// lists what the backend would enforce.
pub fn check(backend: &str, profile: &Profile, spec: &Spec) -> Result<()> {
    let stands = |name: &str| profile.walls.iter().any(|wall| wall.name == name && wall.enforced);
    let misfits: Vec<&str> = demands(spec).filter(|name| !stands(name)).collect();
    if misfits.is_empty() {
        return Ok(());
    }
    let is_known = |name: &String| profile.walls.iter().any(|wall| wall.name == *name);
    if let Some(unknown) = spec.require.iter().find(|name| !is_known(name)) {
        let names: Vec<_> = profile.walls.iter().map(|wall| wall.name.as_str()).collect();
        return Err(Error::new(Kind::Unsupported, format!("there is no wall `{unknown}`"))
            .detail("misfits", misfits.clone())
            .hint(format!("there are {}", names.join(", "))));
    }
    let reasons: Vec<_> = misfits.iter().map(|misfit| why(profile, misfit)).collect();
    Err(Error::new(
        Kind::Unsupported,
        format!("backend `{backend}` cannot enforce {} here", reasons.join(", ")),
    )
    .detail("misfits", misfits.clone())
    .hint("leave it out; a limit may also be named in `allow_missing`. `coracle doctor` says more"))
}

/// Lists the walls that must stand.
fn demands(spec: &Spec) -> impl Iterator<Item = &str> {
    let limits = spec.limits.required.iter().filter(|limit| !spec.allow_missing.contains(limit));
    limits
        .map(|limit| limit.name())
        .chain(spec.require.iter().map(String::as_str))
        // Changing owners and users needs users to change to.
        .chain((spec.privileges == Privileges::Install).then_some("separate_users"))
}

fn why(profile: &Profile, misfit: &str) -> String {
    let wall = profile.walls.iter().find(|wall| wall.name == misfit);
    wall.map_or_else(|| misfit.to_owned(), |wall| format!("{misfit} ({})", wall.how))
}
