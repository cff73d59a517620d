//! A case that starts one process and waits for it.

use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Result, ensure};

use super::complaint;
use crate::case::{Case, Pace, timed};

/// One command line, run as it is. The standard library starts it by `posix_spawn`, which is vfork and exec.
pub struct Process {
    name: &'static str,
    paces: &'static [Pace],
    command: Command,
}

impl Process {
    /// Makes the case, after seeing the command succeed once.
    pub fn new(name: &'static str, mut command: Command) -> Result<Self> {
        complaint::run(&mut command)?;
        // Inherited descriptors need no work in the child; nothing here writes to them.
        command.stdin(Stdio::inherit()).stdout(Stdio::inherit()).stderr(Stdio::inherit());
        Ok(Self { name, paces: &[Pace::Hot, Pace::Gap], command })
    }

    /// Makes a case that takes so long that it is measured in few rounds. What it prints is thrown away.
    pub fn slow(name: &'static str, mut command: Command) -> Result<Self> {
        complaint::run(&mut command)?;
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Ok(Self { name, paces: &[Pace::Own], command })
    }
}

impl Case for Process {
    fn name(&self) -> &'static str {
        self.name
    }

    fn paces(&self) -> &'static [Pace] {
        self.paces
    }

    fn once(&mut self) -> Result<Duration> {
        timed(|| {
            let status = self.command.status()?;
            ensure!(status.success(), "it ended with {status}");
            Ok(())
        })
    }
}
