//! A case that starts one process and waits for it.

use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::case::{Case, timed};

/// One command line, run as it is. The standard library starts it by `posix_spawn`, which is vfork and exec.
pub struct Process {
    name: &'static str,
    command: Command,
}

impl Process {
    /// Makes the case, after seeing the command succeed once.
    pub fn new(name: &'static str, mut command: Command) -> Result<Self> {
        let trial =
            command.stdin(Stdio::null()).output().with_context(|| format!("`{name}` cannot be started"))?;
        let complaint = String::from_utf8_lossy(&trial.stderr);
        ensure!(trial.status.success(), "it says: {}", complaint.trim());
        // Inherited descriptors need no work in the child; nothing here writes to them.
        command.stdin(Stdio::inherit()).stdout(Stdio::inherit()).stderr(Stdio::inherit());
        Ok(Self { name, command })
    }
}

impl Case for Process {
    fn name(&self) -> &'static str {
        self.name
    }

    fn once(&mut self) -> Result<Duration> {
        timed(|| {
            let status = self.command.status()?;
            ensure!(status.success(), "it ended with {status}");
            Ok(())
        })
    }
}
