//! coracle by its command line.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};

use super::process::Process;
use super::{LineUp, complaint, name};
use crate::case::Case;
use crate::workshop::Workshop;

/// The variable that says how many sandboxes to keep made ahead.
const SPARES: &str = "CORACLE_SPARES";

/// Adds `run` with nothing made ahead, `run` with as many spares as the library keeps, and `exec` in an open sandbox.
pub fn add(line_up: &mut LineUp, workshop: &Workshop) {
    for (name, spares) in [(name::CLI_RUN, "0"), (name::CLI_RUN_SPARES, "6")] {
        line_up.add(name, Cli::new(name, workshop, spares, &["run", "--", "true"]));
    }
    line_up.add(name::CLI_EXEC, Cli::in_a_sandbox(workshop));
}

/// A home of its own, and one command line in it.
struct Cli {
    process: Process,
    binary: OsString,
    home: PathBuf,
}

impl Cli {
    fn new(name: &'static str, workshop: &Workshop, spares: &str, words: &[&str]) -> Result<Self> {
        let (binary, home) = place(name, workshop)?;
        let command = call(&binary, &home, spares, words);
        Ok(Self { process: Process::new(name, command)?, binary, home })
    }

    fn in_a_sandbox(workshop: &Workshop) -> Result<Self> {
        let (binary, home) = place(name::CLI_EXEC, workshop)?;
        let opened = complaint::run(&mut call(&binary, &home, "0", &["open"]))?;
        let sandbox = String::from_utf8(opened).context("`open` prints an id")?;
        Self::new(name::CLI_EXEC, workshop, "0", &["exec", sandbox.trim(), "--", "true"])
    }
}

/// Returns the binary that is measured, and the home of a case.
fn place(name: &str, workshop: &Workshop) -> Result<(OsString, PathBuf)> {
    let binary = std::env::var_os("CORACLE_BIN")
        .context("`CORACLE_BIN` does not name the binary; use `cargo xtask bench`")?;
    Ok((binary, workshop.path(&format!("home {name}").replace([' ', ','], "-"))))
}

fn call(binary: &OsStr, home: &Path, spares: &str, words: &[&str]) -> Command {
    let mut call = Command::new(binary);
    call.args(words).env("CORACLE_HOME", home).env(SPARES, spares);
    call
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
    /// Removes the home with its sandboxes, spares and the process that keeps those.
    fn drop(&mut self) {
        if let Err(error) = complaint::run(&mut call(&self.binary, &self.home, "0", &["purge", "--yes"])) {
            eprintln!("could not clean up after `{}`: {error:#}", self.name());
        }
    }
}
