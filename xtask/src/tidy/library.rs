//! What a program that uses the library compiles: no door, nothing only doors need, and no fakes.

use std::process::Stdio;

use anyhow::{Context, Result};

use crate::cargo;

/// What must not be among its dependencies: servers, protocols of doors, the command line, exporters of telemetry.
///
/// hyper itself is there, as the client of engines. Its server comes along by a default of a dependency of bollard's, which
/// no crate above can turn off.
const DOORS_ONLY: &[&str] =
    &["axum", "rmcp", "clap", "indicatif", "opentelemetry", "tracing-opentelemetry", "tracing-subscriber"];

/// What only tests use.
const TESTS_ONLY: &str = "coracle-testing";

/// Returns a complaint for each dependency the library must not have.
pub fn check() -> Result<Vec<String>> {
    let words = ["tree", "--package", "coracle", "--edges", "normal", "--prefix", "none"];
    let output =
        cargo::cargo(words).stderr(Stdio::inherit()).output().context("could not start `cargo tree`")?;
    Ok(complaints(&String::from_utf8_lossy(&output.stdout)))
}

fn complaints(tree: &str) -> Vec<String> {
    let mut found: Vec<String> = tree.lines().filter_map(complaint).collect();
    if tree.is_empty() {
        found.push("`cargo tree` says nothing of the library".to_owned());
    }
    found.sort();
    found.dedup();
    found
}

fn complaint(line: &str) -> Option<String> {
    let name = line.split(' ').next()?;
    let why = match name {
        TESTS_ONLY => "only tests use it",
        _ if DOORS_ONLY.contains(&name) => "doors are crates of their own",
        _ => return None,
    };
    Some(format!("the library must not compile `{name}` (crates/coracle): {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_door_in_the_library_is_noticed_and_a_client_is_not() {
        let tree = "coracle v0.1.0 (crates/coracle)\nhyper v1.0.0\nserde v1.0.0\n";

        assert!(complaints(tree).is_empty());
        assert_eq!(complaints(&format!("{tree}axum v0.8.0\naxum v0.8.0 (*)\n")).len(), 1);
        assert_eq!(complaints(&format!("{tree}coracle-testing v0.1.0 (crates/testing)\n")).len(), 1);
        assert_eq!(complaints("").len(), 1);
    }
}
