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

use std::path::{Path, PathBuf};
use std::sync::Arc;

use coracle_core::{Backend, InstanceId, Result, Timestamp};
pub use coracle_images::{Pace, Registries};

pub use crate::docker::endpoint::Engines;

/// What every backend is told about where it works.
#[derive(Clone, Debug)]
pub struct Setting {
    /// The directory all state is kept in.
    pub home: PathBuf,
    pub instance: InstanceId,
    /// How registries of images are spoken to.
    pub registries: Registries,
    /// Where engines are, as far as the user has said.
    pub engines: Engines,
    pub clock: fn() -> Timestamp,
    /// Called at named moments, for crash tests.
    pub crash: fn(&'static str),
}

impl Setting {
    /// Returns the plainest setting of a home, whose clock stands still.
    pub fn at(home: &Path, instance: InstanceId) -> Self {
        Self {
            home: home.to_owned(),
            instance,
            registries: Registries::default(),
            engines: Engines::default(),
            clock: || Timestamp::from_millis(0),
            crash: |_| {},
        }
    }
}

/// Returns the backends that are looked for on every machine.
pub fn all(setting: &Setting) -> Vec<Arc<dyn Backend>> {
    let docker = docker::endpoint::docker(&setting.engines);
    let podman = docker::endpoint::podman(&setting.engines);
    vec![
        Arc::new(native::Native::new(setting.clone())),
        Arc::new(docker::Docker::new(setting.clone(), "docker", docker)),
        Arc::new(docker::Docker::new(setting.clone(), "podman", podman)),
    ]
}

/// Makes a backend that exists only by its name, as `ssh://host` does; nothing if there is no such kind.
///
/// It is reached when it is first used: what is wrong with the name, or with what it names, is said then.
pub fn named(setting: &Setting, name: &str) -> Option<Arc<dyn Backend>> {
    let endpoint = name.starts_with("ssh://").then(|| docker::endpoint::Endpoint::parse(name))?;
    Some(Arc::new(docker::Docker::new(setting.clone(), name, endpoint)))
}

/// Returns the names of backends that sandboxes of a home are on and that are not in the roll-call, records or not.
pub fn settled(home: &Path) -> Vec<String> {
    docker::home::far(home)
}

/// Finds out which instance a home is that has nothing left but rooms of sandboxes; nothing if it has none. Fails where
/// they do not tell, or say different things.
pub fn recall(home: &Path) -> Result<Option<InstanceId>> {
    mark::recall(home)
}

/// Tells whether the home's mark is looked at: always, but in a build that lacks this wall.
pub fn heeds_mark() -> bool {
    !weak::off(weak::Wall::Mark)
}

/// The moments [`Setting::crash`] is called at by the native backend; [`docker::CRASH_POINTS`] are an engine's.
pub const CRASH_POINTS: &[&str] = native::CRASH_POINTS;

/// Returns the walls this build leaves out, as bits.
#[cfg(feature = "weaken")]
pub fn weakened() -> u64 {
    weak::weakened().unwrap_or(0)
}
