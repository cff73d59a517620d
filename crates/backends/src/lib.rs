//! The roll-call of backends. Adding one is a directory and a line here.

mod boot;
pub mod context;
mod directory;
pub mod docker;
mod filter;
mod mark;
pub mod native;
mod place;
mod program;
mod steps;
mod weak;

use std::path::Path;
use std::sync::Arc;

use coracle_core::{Backend, Home, InstanceId, Result, Timestamp};
pub use coracle_images::{Pace, Registries};

pub use crate::docker::endpoint::Engines;

/// The configuration of every backend: where it works and with what.
#[derive(Clone, Debug)]
pub struct BackendConfig {
    /// The directory with all state.
    pub home: Home,
    pub instance: InstanceId,
    /// How to talk to image registries.
    pub registries: Registries,
    /// Where container engines are, as far as the user has said.
    pub engines: Engines,
    pub clock: fn() -> Timestamp,
    /// Called at named points, for crash tests.
    pub crash: fn(&'static str),
}

impl BackendConfig {
    /// Returns a minimal configuration for a home, with a clock that stands still.
    pub fn at(home: &Path, instance: InstanceId) -> Self {
        Self {
            home: Home::at(home),
            instance,
            registries: Registries::default(),
            engines: Engines::default(),
            clock: || Timestamp::from_millis(0),
            crash: |_| {},
        }
    }
}

/// Returns the backends to look for on every machine.
pub fn all(config: &BackendConfig) -> Vec<Arc<dyn Backend>> {
    let docker = docker::endpoint::docker(&config.engines);
    let podman = docker::endpoint::podman(&config.engines);
    vec![
        Arc::new(native::Native::new(config.clone())),
        Arc::new(docker::Docker::new(config.clone(), "docker", docker)),
        Arc::new(docker::Docker::new(config.clone(), "podman", podman)),
    ]
}

/// Makes a backend that exists only by its name, such as `ssh://host`; `None` if there is no such kind.
///
/// Connects when it is first used: an invalid name, or an unreachable machine, is reported then.
pub fn named(config: &BackendConfig, name: &str) -> Option<Arc<dyn Backend>> {
    let endpoint = name.starts_with("ssh://").then(|| docker::endpoint::Endpoint::parse(name))?;
    Some(Arc::new(docker::Docker::new(config.clone(), name, endpoint)))
}

/// Returns the names of backends outside the roll-call that sandboxes of a home are on, with or without records.
pub fn settled(home: &Home) -> Vec<String> {
    docker::home::far(home)
}

/// Finds out which instance a home is if it has only directories of sandboxes left; `None` if it has none. Fails if
/// they do not say, or contradict each other.
pub fn recall(home: &Home) -> Result<Option<InstanceId>> {
    mark::recall(home)
}

/// Tells whether to check the home's mark: always, except in a build that lacks this wall.
pub fn heeds_mark() -> bool {
    !weak::off(weak::Wall::Mark)
}

/// The points at which the native backend calls [`BackendConfig::crash`]; [`docker::CRASH_POINTS`] are a container
/// engine's.
pub const CRASH_POINTS: &[&str] = native::CRASH_POINTS;
/// The points of falling asleep.
pub const SLEEP_CRASH_POINTS: &[&str] = native::SLEEP_CRASH_POINTS;

/// Returns the walls this build leaves out, as bits.
#[cfg(feature = "weaken")]
pub fn weakened() -> u64 {
    weak::weakened().unwrap_or(0)
}
