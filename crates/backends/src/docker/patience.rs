//! How long an engine may take where it answers only when it has everything.

use std::time::Duration;

/// To take an archive or a context, whole, over a slow line.
pub const UPLOAD: Duration = Duration::from_secs(3600);
