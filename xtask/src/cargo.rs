//! Calling cargo from the root of the workspace.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use serde_json::Value;

/// Returns the root of the workspace.
pub fn root() -> PathBuf {
    let manifest = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    manifest.parent().expect("xtask lies below the root of the workspace").to_owned()
}

/// Returns a cargo command that runs at the root.
pub fn cargo<const N: usize>(arguments: [&str; N]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root()).args(arguments);
    command
}

/// Runs a command and fails unless it succeeds.
pub fn run(command: &mut Command) -> Result<()> {
    let shown = show(command);
    println!("$ {shown}");
    let status = command.status().with_context(|| format!("could not start `{shown}`"))?;
    match status.success() {
        true => Ok(()),
        false => bail!("`{shown}` failed: {status}"),
    }
}

/// Tells whether a subcommand such as `fmt` or `deny` is installed.
pub fn has(subcommand: &str) -> bool {
    let mut probe = cargo([subcommand, "--version"]);
    probe.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}

/// Returns what cargo knows of the workspace, without its dependencies.
pub fn metadata() -> Result<Value> {
    let output = cargo(["metadata", "--no-deps", "--format-version", "1"])
        .stderr(Stdio::inherit())
        .output()
        .context("could not start `cargo metadata`")?;
    serde_json::from_slice(&output.stdout).context("could not read what `cargo metadata` says")
}

/// Returns the directory cargo builds into.
pub fn target_directory() -> Result<PathBuf> {
    let metadata = metadata()?;
    let directory =
        metadata["target_directory"].as_str().context("`cargo metadata` names no target directory")?;
    Ok(PathBuf::from(directory))
}

fn show(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
}
