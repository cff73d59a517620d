//! How long a container engine may take for work without visible progress.

use std::time::Duration;

/// To take a complete archive or context over a slow line.
pub const UPLOAD: Duration = Duration::from_secs(3600);

/// To answer a question. A container engine needs milliseconds, or seconds while it starts other containers; a call
/// that looks after sandboxes at its start must not wait longer.
pub const ANSWER: Duration = Duration::from_secs(15);

/// To answer a question that does not matter much.
pub const GLANCE: Duration = Duration::from_millis(2500);

/// To join a stream to a guest, for which it starts a process on a machine that may be busy.
pub const JOIN: Duration = Duration::from_secs(45);

/// To make a container, or to start one, on a busy machine.
pub const MAKE: Duration = Duration::from_secs(120);

/// To end all processes of a container and remove its files, many as they may be.
pub const REMOVAL: Duration = Duration::from_secs(120);
