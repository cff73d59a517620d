//! The roll-call of backends. Adding one is a directory and a line here.

pub mod context;
pub mod docker;
pub mod native;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use coracle_core::{Backend, InstanceId, Timestamp};
pub use coracle_images::Registries;

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

/// Returns all backends, the preferred one first.
pub fn all(setting: &Setting) -> Vec<Arc<dyn Backend>> {
    vec![Arc::new(native::Native::new(setting.clone()))]
}

/// The moments [`Setting::crash`] is called at.
pub const CRASH_POINTS: &[&str] = native::CRASH_POINTS;

/// Returns the walls this build leaves out, as bits.
#[cfg(feature = "weaken")]
pub fn weakened() -> u64 {
    native::weakened().unwrap_or(0)
}
