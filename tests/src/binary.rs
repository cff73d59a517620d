//! Where the binary under test is.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// Returns the binary: the one `CORACLE_BIN` names, else the one this workspace builds.
///
/// It is built even if it is there: a stale binary under fresh tests has fooled many.
pub fn path() -> &'static Path {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(|| match std::env::var_os("CORACLE_BIN") {
        Some(path) => PathBuf::from(path),
        None => build(),
    })
}

/// Returns a copy of the binary that every user may execute: where it was built, others may not be let in.
pub fn for_everybody() -> &'static Path {
    static COPY: OnceLock<PathBuf> = OnceLock::new();
    COPY.get_or_init(|| {
        let everybody = std::fs::Permissions::from_mode(0o755);
        let directory = tempfile::Builder::new().prefix("coracle-bin-").permissions(everybody).tempdir();
        // Statics are never dropped; the copy is removed with the directory of temporary files.
        let copy = directory.expect("a directory can be made").keep().join("coracle");
        std::fs::copy(path(), &copy).expect("the binary can be copied");
        copy
    })
}

fn build() -> PathBuf {
    let test = std::env::current_exe().expect("a test knows its own path");
    // <target>/debug/deps/cli-0123456789abcdef
    let profile = test.ancestors().nth(2).expect("a test binary lies in `deps` of a profile");
    let target = profile.parent().expect("a profile lies in a target directory");
    let status = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args(["build", "--quiet", "--package", "coracle", "--target-dir"])
        .arg(target)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .status()
        .expect("cargo can be started");
    assert!(status.success(), "could not build the binary under test");
    target.join("debug/coracle")
}
