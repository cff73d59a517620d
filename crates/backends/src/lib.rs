//! The roll-call of backends. Adding one is a directory and a line here.

pub mod native;

use std::path::PathBuf;
use std::sync::Arc;

use coracle_core::{Backend, InstanceId};

/// What every backend is told about where it works.
#[derive(Clone, Debug)]
pub struct Setting {
    /// The directory all state is kept in.
    pub home: PathBuf,
    pub instance: InstanceId,
    /// Called at named moments, for crash tests.
    pub crash: fn(&'static str),
}

/// Returns all backends, the preferred one first.
pub fn all(setting: &Setting) -> Vec<Arc<dyn Backend>> {
    vec![Arc::new(native::Native::new(setting.clone()))]
}

/// The moments [`Setting::crash`] is called at.
pub const CRASH_POINTS: &[&str] = native::CRASH_POINTS;
