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

/// What every backend is told once: where it works and with what.
#[derive(Clone, Debug)]
pub struct BackendConfig {
    /// The directory all state is kept in.
    pub home: Home,
    pub instance: InstanceId,
    /// How registries of images are spoken to.
    pub registries: Registries,
    /// Where engines are, as far as the user has said.
    pub engines: Engines,
    pub clock: fn() -> Timestamp,
    /// Called at named moments, for crash tests.
    pub crash: fn(&'static str),
}

impl BackendConfig {
    /// Returns the plainest configuration for a home, with a clock that stands still.
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

/// Returns the backends that are looked for on every machine.
pub fn all(config: &BackendConfig) -> Vec<Arc<dyn Backend>> {
    let docker = docker::endpoint::docker(&config.engines);
    let podman = docker::endpoint::podman(&config.engines);
    vec![
        Arc::new(native::Native::new(config.clone())),
        Arc::new(docker::Docker::new(config.clone(), "docker", docker)),
        Arc::new(docker::Docker::new(config.clone(), "podman", podman)),
    ]
}

/// Makes a backend that exists only by its name, as `ssh://host` does; nothing if there is no such kind.
///
/// It is reached when it is first used: what is wrong with the name, or with what it names, is said then.
pub fn named(config: &BackendConfig, name: &str) -> Option<Arc<dyn Backend>> {
    let endpoint = name.starts_with("ssh://").then(|| docker::endpoint::Endpoint::parse(name))?;
    Some(Arc::new(docker::Docker::new(config.clone(), name, endpoint)))
}

/// Returns the names of backends that sandboxes of a home are on and that are not in the roll-call, records or not.
pub fn settled(home: &Home) -> Vec<String> {
    docker::home::far(home)
}

/// Finds out which instance a home is that has nothing left but directories of sandboxes; nothing if it has none. Fails where
/// they do not tell, or say different things.
pub fn recall(home: &Home) -> Result<Option<InstanceId>> {
    mark::recall(home)
}

/// Tells whether the home's mark is looked at: always, but in a build that lacks this wall.
pub fn heeds_mark() -> bool {
    !weak::off(weak::Wall::Mark)
}

/// The moments [`BackendConfig::crash`] is called at by the native backend; [`docker::CRASH_POINTS`] are an engine's.
pub const CRASH_POINTS: &[&str] = native::CRASH_POINTS;

/// Returns the walls this build leaves out, as bits.
#[cfg(feature = "weaken")]
pub fn weakened() -> u64 {
    weak::weakened().unwrap_or(0)
}
