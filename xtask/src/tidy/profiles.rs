//! What a panic does in what is shipped. Tests are built with another profile, so none of them would notice.

use anyhow::{Context, Result};

use crate::cargo;

/// Returns a complaint for each profile that does otherwise than it has to.
pub fn check() -> Result<Vec<String>> {
    let path = cargo::root().join("Cargo.toml");
    Ok(complaints(&std::fs::read_to_string(path).context("could not read the workspace's Cargo.toml")?))
}

fn complaints(manifest: &str) -> Vec<String> {
    let aborts = |profile: &str| {
        let heading = format!("[profile.{profile}]");
        let lines = manifest.lines().skip_while(|line| *line != heading).skip(1);
        lines.take_while(|line| !line.starts_with('[')).any(|line| line.trim() == "panic = \"abort\"")
    };
    let daemon = aborts("release").then_some("release: a panic in one request would end the daemon");
    let guest = (!aborts("guest")).then_some("guest: a guest that panics has to be gone at once");
    daemon.into_iter().chain(guest).map(|what| format!("Cargo.toml: profile {what}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_daemon_unwinds_and_the_guest_aborts() {
        let guest = "[profile.guest]\npanic = \"abort\"\n";

        assert!(complaints(&format!("[profile.release]\nstrip = true\n\n{guest}")).is_empty());
        assert_eq!(complaints(&format!("[profile.release]\npanic = \"abort\"\n\n{guest}")).len(), 1);
        assert_eq!(complaints("[profile.guest]\nstrip = true\n").len(), 1);
    }
}
