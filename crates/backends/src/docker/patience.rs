//! How long an engine may take where nothing tells that it is at work.

use std::time::Duration;

/// To take an archive or a context, whole, over a slow line.
pub const UPLOAD: Duration = Duration::from_secs(3600);

/// To say what it knows. One that is there needs milliseconds, one that starts other containers seconds; whoever looks
/// after sandboxes at the start of another call is not to wait longer.
pub const ANSWER: Duration = Duration::from_secs(15);

/// To say something that is of no consequence if it does not.
pub const GLANCE: Duration = Duration::from_millis(2500);

/// To join a stream to a guest: it starts a process for that, on a machine that may be busy.
pub const JOIN: Duration = Duration::from_secs(45);

/// To make a container, or to start one, on a busy machine.
pub const MAKE: Duration = Duration::from_secs(120);

/// To end all processes of a container and remove its files, many as they may be.
pub const REMOVAL: Duration = Duration::from_secs(120);
