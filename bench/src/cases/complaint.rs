//! Runs a tool, and fails with its last words if it fails.

use std::process::{Command, Output, Stdio};

use anyhow::{Context, Result, ensure};

/// Runs a command that is not timed and returns what it printed; fails with the last thing it said.
pub fn run(command: &mut Command) -> Result<Vec<u8>> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output =
        command.stdin(Stdio::null()).output().with_context(|| format!("`{program}` cannot be started"))?;
    check(&output)?;
    Ok(output.stdout)
}

fn check(output: &Output) -> Result<()> {
    let text = String::from_utf8_lossy(&output.stderr);
    let last = text.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("nothing").trim();
    ensure!(output.status.success(), "it says: {last}");
    Ok(())
}
