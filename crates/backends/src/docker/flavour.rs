//! Which container engine answers at an address: Docker and Podman share one API, with a few differences.

use std::str::FromStr;

use bollard::models::{ResourcesUlimits, SystemVersion};
use coracle_sys::rustix::process::{Resource, getrlimit};

/// Podman lowers its own limit on processes to the number of process ids, which is at least this.
const MOST: u64 = 32_768;

/// The kind of a container engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flavour {
    Docker,
    Podman,
}

impl Flavour {
    /// Recognises it by the version it reports.
    pub fn of(version: &SystemVersion) -> Self {
        let components = version.components.iter().flatten();
        match { components }.any(|component| component.name.contains("Podman")) {
            true => Self::Podman,
            false => Self::Docker,
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Docker => "docker",
            Self::Podman => "podman",
        }
    }

    /// Returns limits that must be set explicitly: Podman asks for more than the machine may allow, and then fails.
    pub fn ulimits(self) -> Option<Vec<ResourcesUlimits>> {
        let limit = |name: &str, resource: Resource| {
            let most = getrlimit(resource).maximum.unwrap_or(MOST).min(MOST) as i64;
            ResourcesUlimits { name: Some(name.to_owned()), soft: Some(most), hard: Some(most) }
        };
        match self {
            Self::Docker => None,
            Self::Podman => Some(
                [("nofile", Resource::Nofile), ("nproc", Resource::Nproc)]
                    .into_iter()
                    .map(|(name, resource)| limit(name, resource))
                    .collect(),
            ),
        }
    }
}

impl FromStr for Flavour {
    type Err = ();

    fn from_str(name: &str) -> Result<Self, ()> {
        [Self::Docker, Self::Podman].into_iter().find(|flavour| flavour.name() == name).ok_or(())
    }
}
