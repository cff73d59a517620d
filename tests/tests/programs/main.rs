//! Programs that must work in sandboxes: package managers, builds, debuggers, and the suites agents' frameworks have for
//! sandboxes. What is installed comes from registries the tests make and serve themselves.

mod apt;
mod builds;
mod debuggers;
mod errors;
mod frameworks;
mod host_image;
mod python;
mod registry;

use std::time::Duration;

/// A compiler on a busy machine, or a hundred megabytes unpacked to a disk many share.
const PATIENCE: Duration = Duration::from_secs(180);
