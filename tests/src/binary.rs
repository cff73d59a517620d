//! Where the binaries under test are.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use tempfile::TempDir;

/// Returns the binary: the one `CORACLE_BIN` names, else the one this workspace builds.
///
/// It is built even if it is there: a stale binary under fresh tests has fooled many.
pub fn path() -> &'static Path {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(|| match std::env::var_os("CORACLE_BIN") {
        Some(path) => PathBuf::from(path),
        None => build(&target(), &[]),
    })
}

/// Returns the binary whose walls can be left out one by one: the one `CORACLE_WEAK_BIN` names, else one built beside.
pub fn weak() -> &'static Path {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(|| match std::env::var_os("CORACLE_WEAK_BIN") {
        Some(path) => PathBuf::from(path),
        // In a directory of its own: the same place would be built anew for each of the two, again and again.
        None => build(&target().join("weak"), &["--features", "weaken"]),
    })
}

/// Returns a directory with a copy of the binary that every user may execute: where it was built, others may not be
/// let in.
pub fn for_everybody() -> TempDir {
    let everybody = std::fs::Permissions::from_mode(0o755);
    let directory = tempfile::Builder::new().prefix("coracle-bin-").permissions(everybody).tempdir();
    let directory = directory.expect("a directory can be made");
    std::fs::copy(path(), directory.path().join("coracle")).expect("the binary can be copied");
    directory
}

/// Returns the directory everything is built into.
pub fn target() -> PathBuf {
    let test = std::env::current_exe().expect("a test knows its own path");
    // <target>/debug/deps/cli-0123456789abcdef
    let profile = test.ancestors().nth(2).expect("a test binary lies in `deps` of a profile");
    profile.parent().expect("a profile lies in a target directory").to_owned()
}

fn build(target: &Path, flags: &[&str]) -> PathBuf {
    let status = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args(["build", "--quiet", "--package", "coracle", "--target-dir"])
        .arg(target)
        .args(flags)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .status()
        .expect("cargo can be started");
    assert!(status.success(), "could not build the binary under test");
    target.join("debug/coracle")
}
