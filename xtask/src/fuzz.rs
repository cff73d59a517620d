//! `cargo xtask fuzz [SECONDS]`: every fuzz target in turn, on nightly.

use anyhow::{Context, Result};

use crate::cargo;

const TARGETS_DIRECTORY: &str = "fuzz/fuzz_targets";
const SECONDS: u32 = 60;

/// Runs each target for the given time, or says how to get the tool.
pub fn run(arguments: &[String]) -> Result<()> {
    let seconds = match arguments.first() {
        Some(text) => text.parse().with_context(|| format!("`{text}` is not a number of seconds"))?,
        None => SECONDS,
    };
    if !cargo::has("fuzz") {
        println!(
            "`cargo fuzz` is not installed. Get it with `cargo install --locked cargo-fuzz`; it needs a nightly toolchain."
        );
        return Ok(());
    }
    for target in targets()? {
        // Through rustup's cargo: the one running us is bound to its own toolchain.
        let mut fuzz = std::process::Command::new("cargo");
        fuzz.current_dir(cargo::root())
            .env_remove("RUSTUP_TOOLCHAIN")
            .args(["+nightly", "fuzz", "run", &target, "--"]);
        cargo::run(fuzz.arg(format!("-max_total_time={seconds}")))?;
    }
    Ok(())
}

fn targets() -> Result<Vec<String>> {
    let directory = cargo::root().join(TARGETS_DIRECTORY);
    let entries =
        std::fs::read_dir(&directory).with_context(|| format!("could not list `{}`", directory.display()))?;
    let stems = entries.flatten().filter_map(|entry| Some(entry.path().file_stem()?.to_str()?.to_owned()));
    let mut targets: Vec<String> = stems.collect();
    targets.sort();
    Ok(targets)
}
