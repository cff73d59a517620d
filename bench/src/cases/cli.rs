//! coracle by its command line.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};

use super::process::Process;
use super::{LineUp, complaint, name};
use crate::case::Case;
use crate::workshop::Workshop;

/// The variable that says how many sandboxes to keep made ahead.
const SPARES: &str = "CORACLE_SPARES";

/// Adds the command line with nothing made ahead, and with as many spares as the library keeps.
pub fn add(line_up: &mut LineUp, workshop: &Workshop) {
    for (name, spares) in [(name::CLI_RUN, "0"), (name::CLI_RUN_SPARES, "6")] {
        line_up.add(name, Cli::new(name, workshop, spares));
    }
}

/// A home of its own, and `coracle run` in it.
struct Cli {
    process: Process,
    binary: OsString,
    home: PathBuf,
}

impl Cli {
    fn new(name: &'static str, workshop: &Workshop, spares: &str) -> Result<Self> {
        let binary = std::env::var_os("CORACLE_BIN")
            .context("`CORACLE_BIN` does not name the binary; use `cargo xtask bench`")?;
        let home = workshop.path(&format!("home-cli-{spares}"));
        let mut command = Command::new(&binary);
        command.args(["run", "--", "true"]).env("CORACLE_HOME", &home).env(SPARES, spares);
        Ok(Self { process: Process::new(name, command)?, binary, home })
    }
}

impl Case for Cli {
    fn name(&self) -> &'static str {
        self.process.name()
    }

    fn once(&mut self) -> Result<Duration> {
        self.process.once()
    }
}

impl Drop for Cli {
    /// Has whoever keeps spares end, then removes what is left.
    fn drop(&mut self) {
        for words in [&["spares", "--stop"][..], &["gc"]] {
            let mut call = Command::new(&self.binary);
            call.args(words).env("CORACLE_HOME", &self.home).env(SPARES, "0");
            if let Err(error) = complaint::run(&mut call) {
                eprintln!("could not clean up after `{}`: {error:#}", self.name());
            }
        }
    }
}
