//! `cargo xtask tidy`: format, lints, the rules of the house, the direction of crates and components, licences.

mod components;
mod direction;
mod library;
mod profiles;
mod rules;
mod source;

use anyhow::{Result, bail};

use crate::cargo;

/// Runs every check and fails at the end if one of them did.
pub fn run() -> Result<()> {
    let mut failed = Vec::new();
    let complaints = house_rules()?;
    complaints.iter().for_each(|complaint| println!("{complaint}"));
    if !complaints.is_empty() {
        failed.push(format!("the rules of the house ({} times)", complaints.len()));
    }
    let tools: [(&str, &[&str]); 3] = [
        ("fmt", &["fmt", "--all", "--check"]),
        ("clippy", &["clippy", "--quiet", "--workspace", "--all-targets", "--", "--deny", "warnings"]),
        ("deny", &["deny", "--log-level", "error", "check", "licenses", "bans", "sources"]),
    ];
    for (tool, arguments) in tools {
        if !cargo::has(tool) {
            println!("Skipped `cargo {tool}`: it is not installed.");
        } else if cargo::run(cargo::cargo([]).args(arguments)).is_err() {
            failed.push(format!("cargo {tool}"));
        }
    }
    match failed.is_empty() {
        true => Ok(()),
        false => bail!("not tidy: {}", failed.join(", ")),
    }
}

fn house_rules() -> Result<Vec<String>> {
    let sources = source::all(&cargo::root())?;
    let mut complaints: Vec<String> = sources.iter().flat_map(rules::check).collect();
    complaints.extend(sources.iter().flat_map(components::check));
    complaints.extend(direction::check(&cargo::metadata()?));
    complaints.extend(library::check()?);
    complaints.extend(profiles::check()?);
    Ok(complaints)
}
