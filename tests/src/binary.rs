//! Where the binaries under test are.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use tempfile::TempDir;

use crate::count;

/// The commit before homes had events, tokens and tenants.
const OLD_COMMIT: &str = "3572daf";

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

/// Returns a build from before homes had events, tokens and tenants: the one `CORACLE_OLD_BIN` names, or in a full run
/// one that is built from its commit. Or why there is none.
pub fn old() -> Result<PathBuf, String> {
    static BINARY: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let old = || match (std::env::var_os("CORACLE_OLD_BIN"), count(0, 1)) {
        (Some(path), _) => Ok(path.into()),
        (None, 0) => {
            Err("it takes minutes to make; `--full` does, or `CORACLE_OLD_BIN` names one".to_owned())
        }
        (None, _) => build_old(),
    };
    BINARY.get_or_init(old).clone()
}

/// Returns a directory with a copy of the binary that every user may execute: where it was built, others may not be
/// let in.
pub fn for_everybody() -> TempDir {
    let everybody = std::fs::Permissions::from_mode(0o755);
    let directory = tempfile::Builder::new().prefix("coracle-bin-").permissions(everybody).tempdir();
    let directory = directory.expect("a directory can be made");
    // By another process: what another thread starts meanwhile would inherit our descriptor, and a file that is open for
    // writing cannot be executed.
    let copied = Command::new("cp").arg(path()).arg(directory.path().join("coracle")).status();
    assert!(copied.is_ok_and(|status| status.success()), "the binary can be copied");
    directory
}

/// Returns the directory everything is built into.
pub fn target() -> PathBuf {
    let test = std::env::current_exe().expect("a test knows its own path");
    // <target>/debug/deps/cli-0123456789abcdef
    let profile = test.ancestors().nth(2).expect("a test binary lies in `deps` of a profile");
    profile.parent().expect("a profile lies in a target directory").to_owned()
}

/// Builds from a clone that goes again: the repository one works in is not for us to add anything to.
fn build_old() -> Result<PathBuf, String> {
    let kept = target().join("old").join(OLD_COMMIT);
    if kept.exists() {
        return Ok(kept);
    }
    let told = |error: std::io::Error| format!("could not prepare `{}`: {error}", kept.display());
    let tree = tempfile::tempdir().map_err(told)?;
    let (target, repository) =
        (target().join("old/target"), Path::new(env!("CARGO_MANIFEST_DIR")).join(".."));
    let git = |words: &[&str]| succeed(Command::new("git").arg("-C").arg(tree.path()).args(words));
    git(&["clone", "--quiet", "--no-checkout", &repository.to_string_lossy(), "."])?;
    git(&["checkout", "--quiet", "--detach", OLD_COMMIT])?;
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let words = ["build", "--quiet", "--bin", "coracle", "--target-dir"];
    succeed(Command::new(cargo).args(words).arg(&target).current_dir(tree.path()))?;
    std::fs::rename(target.join("debug/coracle"), &kept).map_err(told)?;
    Ok(kept)
}

/// Runs a command to its end, or tells what it said.
pub(crate) fn succeed(command: &mut Command) -> Result<(), String> {
    let shown = format!("{command:?}");
    let output =
        command.stdin(Stdio::null()).output().map_err(|error| format!("could not start {shown}: {error}"))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(format!("{shown} failed: {}", String::from_utf8_lossy(&output.stderr))),
    }
}

fn build(target: &Path, flags: &[&str]) -> PathBuf {
    let status = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args(["build", "--quiet", "--package", "coracle-cli", "--target-dir"])
        .arg(target)
        .args(flags)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .status()
        .expect("cargo can be started");
    assert!(status.success(), "could not build the binary under test");
    target.join("debug/coracle")
}
